//! Whether a text is a media type, as Go's `mime` package sees it.
//!
//! The flag that holds one changes nothing, but a manifest that MCM refuses should not start here and surprise on the way back.

/// Why it is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MediaTypeError {
    /// Nothing before the parameters.
    #[error("it is empty")]
    Empty,
    /// Spaces, quotes or other signs in it, or nothing on one side of the slash.
    #[error("its name is not made of letters, digits and signs")]
    Name,
    /// Something behind `;` that is not `name=value`.
    #[error("a parameter is not of the form name=value")]
    Parameter,
    /// The same parameter twice.
    #[error("a parameter stands there twice")]
    Twice,
}

/// Checks it.
pub(super) fn check(text: &str) -> Result<(), MediaTypeError> {
    let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
    let name = name.trim();
    if name.is_empty() {
        return Err(MediaTypeError::Empty);
    }
    let (kind, detail) = name.split_once('/').map_or((name, None), |(kind, detail)| (kind, Some(detail)));
    if !is_token(kind) || !detail.is_none_or(is_token) {
        return Err(MediaTypeError::Name);
    }
    let mut seen = Vec::new();
    for parameter in parameters.split(';').map(str::trim).filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').ok_or(MediaTypeError::Parameter)?;
        let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
        if !is_token(key) || !(quoted || is_token(value)) {
            return Err(MediaTypeError::Parameter);
        }
        let key = key.to_ascii_lowercase();
        if seen.contains(&key) {
            return Err(MediaTypeError::Twice);
        }
        seen.push(key);
    }
    Ok(())
}

/// RFC 2045: printable ASCII without spaces and the signs that structure a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows FLG-8.
    #[rstest]
    #[case("application/vnd.kubernetes.protobuf", Ok(()))]
    #[case("application/json; charset=utf-8", Ok(()))]
    #[case("json", Ok(()))]
    #[case("", Err(MediaTypeError::Empty))]
    #[case("application/", Err(MediaTypeError::Name))]
    #[case("application json", Err(MediaTypeError::Name))]
    #[case("a/b; charset", Err(MediaTypeError::Parameter))]
    #[case("a/b; c=1; C=2", Err(MediaTypeError::Twice))]
    fn a_media_type_is_told_from_what_is_none(#[case] text: &str, #[case] verdict: Result<(), MediaTypeError>) {
        assert_eq!(check(text), verdict);
    }
}
