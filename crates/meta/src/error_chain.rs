use std::error::Error;

/// Returns the message of an error and the messages of its sources, separated by `: `. A message that the text already
/// contains is not repeated.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to send: {0}")]
    struct Repeats(#[source] std::fmt::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("failed to list pods")]
    struct Wraps(#[source] Repeats);

    #[test]
    fn error_chain_shows_each_message_once() {
        let text = error_chain(&Wraps(Repeats(std::fmt::Error)));
        assert_eq!(text, format!("failed to list pods: failed to send: {}", std::fmt::Error));
    }
}
