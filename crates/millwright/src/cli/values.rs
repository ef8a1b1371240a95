//! Types of flag values, parsed as Go parses them.
//!
//! Existing manifests were written for Go's parsers: `0x10`, `1_000` and `+5` are numbers, `T` is true, and a duration
//! needs a unit. A text that cannot be parsed is rejected immediately, with usage and exit code 2. A value that can be
//! parsed but is out of range, such as a negative duration, is not: all of these are reported together after the whole
//! line was parsed. Each type here therefore also holds invalid values and reports its own problem ([`Ranged`]).

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use api::GoDuration;

/// A text that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(String);

/// A value that can be well formed and still out of range.
pub(crate) trait Ranged {
    /// Returns the requirement that the value violates.
    fn problem(&self) -> Option<&'static str>;
}

/// A duration that must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(GoDuration);

impl Span {
    /// Returns the duration.
    pub(crate) const fn get(self) -> Duration {
        self.0.to_std()
    }
}

impl FromStr for Span {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        go_duration(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Ranged for Span {
    fn problem(&self) -> Option<&'static str> {
        self.0.is_negative().then_some("must not be negative")
    }
}

/// A number that must not be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(i32);

impl Count {
    /// Returns the unsigned number.
    pub(crate) fn get(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }

    /// Returns the signed number that the planner uses.
    pub(crate) fn signed(self) -> i32 {
        self.0.max(0)
    }
}

impl FromStr for Count {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        go_int(text).map(Self)
    }
}

impl Ranged for Count {
    fn problem(&self) -> Option<&'static str> {
        (self.0 < 0).then_some("must not be negative")
    }
}

/// A concurrency: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Concurrency(i32);

impl Concurrency {
    /// Returns this concurrency, as the default of a flag.
    pub(crate) fn of(number: usize) -> Self {
        Self(i32::try_from(number).unwrap_or(i32::MAX))
    }

    /// Returns the number.
    pub(crate) fn get(self) -> usize {
        usize::try_from(self.0).unwrap_or(1)
    }
}

impl FromStr for Concurrency {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        go_int(text).map(Self)
    }
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Ranged for Concurrency {
    fn problem(&self) -> Option<&'static str> {
        (self.0 < 1).then_some("must be above zero")
    }
}

/// A TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port(i32);

impl Port {
    /// Returns the port number.
    pub(crate) fn get(self) -> u16 {
        u16::try_from(self.0).unwrap_or(0)
    }
}

impl FromStr for Port {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        go_int(text).map(Self)
    }
}

impl Ranged for Port {
    fn problem(&self) -> Option<&'static str> {
        (!(1..=65535).contains(&self.0)).then_some("must be a port: 1 to 65535")
    }
}

/// A rate per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(f32);

impl Rate {
    /// Returns the rate.
    pub(crate) const fn get(self) -> f32 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        go_float(text).map(Self)
    }
}

impl Ranged for Rate {
    fn problem(&self) -> Option<&'static str> {
        (!(self.0 > 0.0 && self.0.is_finite())).then_some("must be above zero")
    }
}

/// Parses a duration in Go's format, of either sign.
pub(crate) fn go_duration(text: &str) -> Result<GoDuration, Malformed> {
    text.parse().map_err(|error| Malformed(format!("{error}; use a value such as 90s, 20m or 1h30m")))
}

/// Parses a duration in Go's format, for flags that MCM does not have.
pub(crate) fn duration(text: &str) -> Result<Duration, Malformed> {
    let read = go_duration(text)?;
    if read.is_negative() { Err(Malformed("must not be negative".to_owned())) } else { Ok(read.to_std()) }
}

/// Parses a 32-bit signed number in any base that Go's literals support: `10`, `0xa`, `0b1010`, `0o12`, `012`, `1_0`.
pub(crate) fn go_int(text: &str) -> Result<i32, Malformed> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else {
        lower.strip_prefix('0').filter(|rest| !rest.is_empty()).map_or((10, lower.as_str()), |digits| (8, digits))
    };
    plain_digits(digits, radix != 10)
        .and_then(|digits| i64::from_str_radix(&digits, radix).ok())
        .and_then(|read| i32::try_from(if negative { -read } else { read }).ok())
        .ok_or_else(|| Malformed("must be a whole number of 32 bits".to_owned()))
}

/// Returns the digits without the underscores that Go allows between them and after the prefix of a base.
fn plain_digits(digits: &str, prefixed: bool) -> Option<String> {
    let body = if prefixed { digits.strip_prefix('_').unwrap_or(digits) } else { digits };
    let valid = body.split('_').all(|group| !group.is_empty() && group.chars().all(|c| c.is_ascii_hexdigit()));
    valid.then(|| body.replace('_', ""))
}

/// Parses a floating-point number.
pub(crate) fn go_float(text: &str) -> Result<f32, Malformed> {
    let read: f32 = text.parse().map_err(|_| Malformed("must be a number".to_owned()))?;
    if read.is_infinite() && !text.to_ascii_lowercase().contains("inf") {
        return Err(Malformed("is too large for a 32-bit number".to_owned()));
    }
    Ok(read)
}

/// Parses a boolean in all of Go's spellings.
pub(crate) fn go_bool(text: &str) -> Result<bool, Malformed> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Malformed("must be true or false".to_owned())),
    }
}

/// Parses an IP address.
pub(crate) fn go_ip(text: &str) -> Result<IpAddr, Malformed> {
    text.trim().parse().map_err(|_| Malformed("must be an IP address, such as 0.0.0.0 or ::".to_owned()))
}

/// Parses verbosities per file, as klog does: `server=2,lease*=4`.
pub(crate) fn vmodule(text: &str) -> Result<String, Malformed> {
    let valid = |part: &str| {
        part.split_once('=').is_some_and(|(file, level)| !file.is_empty() && level.parse::<i32>().is_ok_and(|n| n >= 0))
    };
    if text.split(',').filter(|part| !part.is_empty()).all(valid) {
        Ok(text.to_owned())
    } else {
        Err(Malformed("must be a comma-separated list of FILE=N".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows FLG-5.
    #[rstest]
    #[case("10", Some(10))]
    #[case("+10", Some(10))]
    #[case("-10", Some(-10))]
    #[case("0", Some(0))]
    #[case("010", Some(8))]
    #[case("0o17", Some(15))]
    #[case("0x1F", Some(31))]
    #[case("0b101", Some(5))]
    #[case("1_000", Some(1000))]
    #[case("0x_ff", Some(255))]
    #[case("0_7", Some(7))]
    #[case("2147483647", Some(i32::MAX))]
    #[case("-2147483648", Some(i32::MIN))]
    #[case("2147483648", None)]
    #[case("", None)]
    #[case("-", None)]
    #[case("--1", None)]
    #[case("+-1", None)]
    #[case("_1", None)]
    #[case("1_", None)]
    #[case("1__0", None)]
    #[case("08", None)]
    #[case("0x", None)]
    #[case("1.5", None)]
    #[case("ten", None)]
    #[case(" 1", None)]
    fn whole_numbers_are_parsed_as_in_go(#[case] text: &str, #[case] value: Option<i32>) {
        assert_eq!(go_int(text).ok(), value);
    }

    /// Shows FLG-5.
    #[rstest]
    #[case("20", Some(20.0))]
    #[case("+1.5", Some(1.5))]
    #[case(".5", Some(0.5))]
    #[case("1e2", Some(100.0))]
    #[case("1e99", None)]
    #[case("", None)]
    #[case("1,5", None)]
    fn floating_point_numbers_are_parsed_as_in_go(#[case] text: &str, #[case] value: Option<f32>) {
        assert_eq!(go_float(text).ok(), value);
    }

    /// Shows FLG-5.
    #[rstest]
    #[case("0.0.0.0", true)]
    #[case(" 10.0.0.1 ", true)]
    #[case("::", true)]
    #[case("::ffff:10.0.0.1", true)]
    #[case("010.0.0.1", false)]
    #[case("10.0.0", false)]
    #[case("fe80::1%eth0", false)]
    #[case("localhost", false)]
    fn ip_addresses_are_parsed_as_in_go(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(go_ip(text).is_ok(), valid);
    }

    /// Shows FLG-5.
    #[rstest]
    #[case("", true)]
    #[case("lease*=4,server=2,", true)]
    #[case("lease", false)]
    #[case("=4", false)]
    #[case("lease=", false)]
    #[case("lease=-1", false)]
    #[case("a=b=1", false)]
    fn vmodule_is_parsed_as_in_klog(#[case] text: &str, #[case] valid: bool) {
        assert_eq!(vmodule(text).is_ok(), valid);
    }
}
