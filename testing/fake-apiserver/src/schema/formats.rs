//! Formats of strings: dates, durations, addresses.
//!
//! The API server checks the formats it knows and ignores all others. Of those it knows, we refuse definitions that use one
//! of the few we do not check, rather than letting every value pass.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A format that is checked or, for numbers, at least named in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Int32,
    Int64,
    Float,
    Double,
    DateTime,
    Date,
    Duration,
    Byte,
    Password,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid(Option<char>),
    Uri,
    ShortName,
    LongName,
}

/// What a format name in a definition comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is checked.
    Checked(Format),
    /// The API server does not know it either.
    Ignored,
    /// The API server would check it and we would not.
    Unsupported,
}

impl Format {
    /// The format of a string or untyped value. Dashes do not count.
    pub(super) fn of_text(name: &str) -> Known {
        Known::Checked(match name.replace('-', "").as_str() {
            "datetime" => Self::DateTime,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid(None),
            "uuid3" => Self::Uuid(Some('3')),
            "uuid4" => Self::Uuid(Some('4')),
            "uuid5" => Self::Uuid(Some('5')),
            "uri" => Self::Uri,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            "hostname" | "email" | "bsonobjectid" | "isbn" | "isbn10" | "isbn13" | "creditcard" | "ssn"
            | "hexcolor" | "rgbcolor" | "quantity" => return Known::Unsupported,
            _ => return Known::Ignored,
        })
    }

    /// The format of an integer.
    pub(super) fn of_integer(name: &str) -> Known {
        match name {
            "int32" => Known::Checked(Self::Int32),
            "int64" => Known::Checked(Self::Int64),
            _ => Known::Ignored,
        }
    }

    /// The format of a number.
    pub(super) fn of_number(name: &str) -> Known {
        match name {
            "float" => Known::Checked(Self::Float),
            "double" => Known::Checked(Self::Double),
            _ => Known::Ignored,
        }
    }

    /// The name messages use.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float => "float",
            Self::Double => "double",
            Self::DateTime => "date-time",
            Self::Date => "date",
            Self::Duration => "duration",
            Self::Byte => "byte",
            Self::Password => "password",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Cidr => "cidr",
            Self::Mac => "mac",
            Self::Uuid(None) => "uuid",
            Self::Uuid(Some('3')) => "uuid3",
            Self::Uuid(Some('4')) => "uuid4",
            Self::Uuid(Some(_)) => "uuid5",
            Self::Uri => "uri",
            Self::ShortName => "k8s-short-name",
            Self::LongName => "k8s-long-name",
        }
    }

    /// Whether this text has the format. Formats of numbers say nothing about text.
    pub(super) fn admits(self, text: &str) -> bool {
        match self {
            Self::Int32 | Self::Int64 | Self::Float | Self::Double | Self::Password => true,
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Duration => is_duration(text),
            Self::Byte => !text.is_empty() && STANDARD.decode(text).is_ok(),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid(version) => is_uuid(text, version),
            Self::Uri => is_request_uri(text),
            Self::ShortName => text.len() <= 63 && is_name_label(text),
            Self::LongName => text.len() <= 253 && text.split('.').all(is_name_label),
        }
    }
}

/// A fixed pattern: `9` stands for a digit, everything else for itself.
fn fits(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(b, p)| if p == b'9' { b.is_ascii_digit() } else { b == p })
}

fn is_date(text: &str) -> bool {
    fits(text, "9999-99-99") && text.parse::<jiff::civil::Date>().is_ok()
}

/// RFC 3339: a zone is required, the letters may be small, fractions may be long.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_once(['T', 't']) else { return false };
    let Some((time, rest)) = rest.split_at_checked(8) else { return false };
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let zone = matches!(rest, "Z" | "z") || fits(rest, "+99:99") || fits(rest, "-99:99");
    is_date(date) && fits(time, "99:99:99") && time.parse::<jiff::civil::Time>().is_ok() && zone
}

/// Go's durations, or any number of whole numbers with units up to weeks, with or without blanks.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || is_spelled_duration(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = rest.get(..rest.len() - after.len()).unwrap_or_default();
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 || number.len() - digits > 1 {
            return false;
        }
        let Some(unit) = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find(|u| is_unit(after, u)) else {
            return false;
        };
        rest = after.get(unit.len()..).unwrap_or_default();
        parts += 1;
    }
    parts > 0
}

/// Whether `text` starts with exactly this unit: the next part starts with a digit or a point.
fn is_unit(text: &str, unit: &str) -> bool {
    text.strip_prefix(unit).is_some_and(|rest| rest.chars().next().is_none_or(|c| c.is_ascii_digit() || c == '.'))
}

fn is_spelled_duration(text: &str) -> bool {
    const SHORT: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "sec"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let mut rest = text.trim_start();
    let mut known = false;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() == rest.len() {
            return false;
        }
        let after = after.trim_start();
        let next = after.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let unit = after.get(..after.len() - next.len()).unwrap_or_default().to_lowercase();
        if unit.is_empty() {
            return false;
        }
        known |= SHORT.contains(&unit.as_str()) || LONG.iter().any(|long| unit.starts_with(long));
        rest = next.trim_start();
    }
    known
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let canonical =
        !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    match (address.parse::<IpAddr>(), bits.parse::<u8>()) {
        (Ok(IpAddr::V4(_)), Ok(bits)) => canonical && bits <= 32,
        (Ok(IpAddr::V6(_)), Ok(bits)) => canonical && bits <= 128,
        _ => false,
    }
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, length| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let grouped = |by: char, length, counts: &[usize]| {
        let parts: Vec<_> = text.split(by).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, length))
    };
    grouped(':', 2, &[6, 8, 20]) || grouped('-', 2, &[6, 8, 20]) || grouped('.', 4, &[3, 4, 10])
}

/// Dashes between the groups are optional; version and, from four on, variant must be right.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = String::new();
    let mut chars = text.chars().peekable();
    for group in [8, 4, 4, 4, 12] {
        if !digits.is_empty() {
            chars.next_if_eq(&'-');
        }
        digits.extend(chars.by_ref().take(group));
    }
    let variant = |c: char| version == Some('3') || matches!(c.to_ascii_lowercase(), '8' | '9' | 'a' | 'b');
    digits.len() == 32
        && chars.next().is_none()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && version.is_none_or(|v| digits.chars().nth(12) == Some(v) && digits.chars().nth(16).is_some_and(variant))
}

fn is_name_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    label.bytes().next().is_some_and(inner)
        && label.bytes().next_back().is_some_and(inner)
        && label.bytes().all(|b| inner(b) || b == b'-')
}

/// What Go takes as the target of a request: an absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    (scheme || text.starts_with('/')) && !text.contains(|c: char| c.is_ascii_control() || c == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn admits(format: &str, text: &str) -> bool {
        match Format::of_text(format) {
            Known::Checked(format) => format.admits(text),
            other => panic!("{format} is {other:?}"),
        }
    }

    #[rstest]
    #[case("date-time", &["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789+02:00", "2026-01-02t03:04:05z"])]
    #[case("date", &["2026-02-28"])]
    #[case("duration", &["0", "5m", "1h30m", "-1.5s", "300ms", "2µs", "22 ns", "2 days", "1 week 3 d"])]
    #[case("byte", &["aGVsbG8=", "aGVs"])]
    #[case("ipv4", &["10.0.0.1"])]
    #[case("ipv6", &["fe80::1", "::"])]
    #[case("cidr", &["10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"])]
    #[case("mac", &["01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab"])]
    #[case("uuid", &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"])]
    #[case("uuid4", &["123e4567-e89b-42d3-a456-426614174000"])]
    #[case("uri", &["https://example.com/x?y=z", "/healthz", "urn:a:b"])]
    #[case("password", &["", "anything"])]
    #[case("k8s-short-name", &["a-1"])]
    #[case("k8s-long-name", &["a.b-1.c"])]
    fn good_values_are_admitted(#[case] format: &str, #[case] texts: &[&str]) {
        for text in texts {
            assert!(admits(format, text), "{format}: {text}");
        }
    }

    #[rstest]
    #[case("date-time", &["", "2026-01-02", "2026-01-02T03:04:05", "2026-13-02T03:04:05Z", "2026-01-02T25:04:05Z", "2026-01-02T03:04:05.Z", "2026-01-02 03:04:05Z"])]
    #[case("date", &["2026-02-30", "26-02-01", "2026-2-1"])]
    #[case("duration", &["", "5", "5x", "m", "1..5s", "five minutes", "10 parsecs"])]
    #[case("byte", &["", "a", "a$==", "aGVsbG8"])]
    #[case("ipv4", &["10.0.0", "::1", "10.0.0.256"])]
    #[case("ipv6", &["10.0.0.1", "fe80:::1"])]
    #[case("cidr", &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "x/8"])]
    #[case("mac", &["01:23:45:67:89", "01:23:45:67:89:zz"])]
    #[case("uuid", &["123e4567-e89b-12d3-a456-42661417400", "not-a-uuid"])]
    #[case("uuid4", &["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"])]
    #[case("uri", &["", "example.com", "http://a b"])]
    #[case("k8s-short-name", &["A", "a.b", "-a"])]
    #[case("k8s-long-name", &["a..b", "A.b"])]
    fn bad_values_are_not(#[case] format: &str, #[case] texts: &[&str]) {
        for text in texts {
            assert!(!admits(format, text), "{format}: {text}");
        }
    }

    #[test]
    fn an_unknown_format_is_ignored_and_a_known_unchecked_one_is_not() {
        assert_eq!(Format::of_text("frob"), Known::Ignored);
        assert_eq!(Format::of_text("isbn"), Known::Unsupported);
        assert_eq!(Format::of_integer("date"), Known::Ignored);
    }
}
