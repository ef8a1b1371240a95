//! Points in time with microseconds, which the reference reads more strictly than one would think.

use serde_json::Value;

/// Why a time in an object cannot be read: it must have exactly six digits after the point.
pub(super) fn unreadable_micro_time(time: &Value) -> Option<String> {
    let text = time.as_str()?;
    let fraction = text.split_once('.').map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    let form = "2006-01-02T15:04:05.000000Z07:00";
    (fraction != Some(6)).then(|| format!("parsing time {text:?} as {form:?}: cannot parse as \".000000\""))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("2026-01-01T00:00:00.000000Z", true)]
    #[case("2026-01-01T00:00:00Z", false)]
    #[case("2026-01-01T00:00:00.123Z", false)]
    #[case("2026-01-01T00:00:00.123456789Z", false)]
    fn a_micro_time_has_six_digits(#[case] text: &str, #[case] readable: bool) {
        assert_eq!(unreadable_micro_time(&json!(text)).is_none(), readable);
    }
}
