//! Validates media types as Go's `mime` package does.
//!
//! The flag that holds a media type has no effect. It is validated nevertheless: a manifest that MCM refuses must not
//! start here and then fail when it is used with MCM again.

/// Why a text is not a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MediaTypeError {
    /// The media type is empty.
    #[error("the media type is empty")]
    Empty,
    /// Spaces, quotes or other special characters, or nothing on one side of the slash.
    #[error("the type contains a character that is not allowed")]
    Name,
    /// A parameter that is not `name=value`.
    #[error("a parameter does not have the form name=value")]
    Parameter,
    /// The same parameter twice.
    #[error("a parameter is given twice")]
    Twice,
}

/// Checks that the text is a media type.
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

/// Reports whether the text is a token of RFC 2045: printable ASCII without spaces and separators.
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
    fn media_types_are_validated_as_in_go(#[case] text: &str, #[case] expected: Result<(), MediaTypeError>) {
        assert_eq!(check(text), expected);
    }
}
