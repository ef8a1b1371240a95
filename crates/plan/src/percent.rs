//! Text as it stands in a URL.

/// Letters, digits and `-_.~` as they are, all else as `%` and its byte.
pub(crate) fn encoded(text: &str) -> String {
    let half = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or('0').to_ascii_uppercase();
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend(['%', half(byte >> 4), half(byte & 15)]);
        }
    }
    encoded
}
