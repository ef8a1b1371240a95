//! Durations in the notation of Go.
//!
//! Specs, annotations, flags and descriptions contain durations such as `2h`, `1h30m` or `20m0s`. The notation has no days. It accepts
//! fractions (`1.5h`), both micro signs and a leading sign, and prints hours, minutes and seconds together (`2h0m0s`).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Maximum absolute value of a negative duration in nanoseconds; one more than that of a positive one.
const LIMIT: u64 = 1 << 63;

/// A signed number of nanoseconds, at most about 292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Empty, or not pairs of numbers and units.
    #[error("not a duration: expected numbers with units, such as 1h30m")]
    Malformed,
    /// A number without a unit, except `0`.
    #[error("missing unit: use ns, us, ms, s, m or h")]
    MissingUnit,
    /// An unknown unit, such as days.
    #[error("unknown unit: use ns, us, ms, s, m or h")]
    UnknownUnit,
    /// More than about 292 years.
    #[error("too long: at most 2562047h47m16.854775807s")]
    TooLong,
}

impl GoDuration {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates a duration from nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Creates a duration from seconds; saturates at the maximum.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Returns whether the duration is negative.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Returns an unsigned duration; zero if it is negative.
    pub const fn to_std(self) -> Duration {
        Duration::from_nanos(if self.0 < 0 { 0 } else { self.0.unsigned_abs() })
    }
}

impl From<GoDuration> for SignedDuration {
    fn from(duration: GoDuration) -> Self {
        Self::from_nanos(duration.0)
    }
}

impl From<Duration> for GoDuration {
    /// Saturates at the maximum.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl From<SignedDuration> for GoDuration {
    /// Saturates at the limits.
    fn from(duration: SignedDuration) -> Self {
        let limit = if duration.is_negative() { i64::MIN } else { i64::MAX };
        Self(i64::try_from(duration.as_nanos()).unwrap_or(limit))
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(DurationError::Malformed);
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let amount;
            (amount, rest) = leading_amount(rest)?;
            total = total.checked_add(amount).filter(|sum| *sum <= LIMIT).ok_or(DurationError::TooLong)?;
        }
        match (negative, i64::try_from(total)) {
            (true, Ok(nanos)) => Ok(Self(-nanos)),
            (true, Err(_)) => Ok(Self(i64::MIN)),
            (false, Ok(nanos)) => Ok(Self(nanos)),
            (false, Err(_)) => Err(DurationError::TooLong),
        }
    }
}

/// Parses one number with its unit. Returns the nanoseconds and the rest of the text.
fn leading_amount(text: &str) -> Result<(u64, &str), DurationError> {
    let (whole, rest) = split_digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Malformed);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let unit = match unit {
        "" => return Err(DurationError::MissingUnit),
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND, // the micro sign and the Greek letter
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return Err(DurationError::UnknownUnit),
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let nanos = whole.checked_mul(unit).and_then(|n| n.checked_add(part_of(unit, fraction)));
    match nanos {
        Some(nanos) if nanos <= LIMIT => Ok((nanos, rest)),
        _ => Err(DurationError::TooLong),
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Returns the nanoseconds of a decimal fraction of a unit, in floating point like Go, so that both round equally.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "same expression as in Go; the result fits, because a fraction of an hour is below 2^53 ns"
)]
fn part_of(unit: u64, digits: &str) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in digits.bytes() {
        // Go ignores digits that overflow.
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if value <= (LIMIT - 1) / 10 && next <= LIMIT => value = next,
            _ => break,
        }
        scale *= 10.0;
    }
    if value == 0 { 0 } else { (value as f64 * (unit as f64 / scale)) as u64 }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match total {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{total}ns"),
            MICROSECOND..MILLISECOND => decimal(f, total, MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => decimal(f, total, MILLISECOND, "ms"),
            _ => {
                if total >= HOUR {
                    write!(f, "{}h", total / HOUR)?;
                }
                if total >= MINUTE {
                    write!(f, "{}m", total % HOUR / MINUTE)?;
                }
                decimal(f, total % MINUTE, SECOND, "s")
            }
        }
    }
}

/// Writes a number of units with the necessary decimals.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let width = unit.ilog10() as usize;
    let fraction = format!("{:0width$}", nanos % unit);
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        write!(f, ".{fraction}")?;
    }
    f.write_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Shows API-5.
    #[rstest]
    #[case("0", 0)]
    #[case("+0", 0)]
    #[case("-0", 0)]
    #[case("0s", 0)]
    #[case("5s", 5_000_000_000)]
    #[case("30m", 1_800_000_000_000)]
    #[case("1478s", 1_478_000_000_000)]
    #[case("-5s", -5_000_000_000)]
    #[case("+5s", 5_000_000_000)]
    #[case("5.0s", 5_000_000_000)]
    #[case("5.6s", 5_600_000_000)]
    #[case("5.s", 5_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1.0040s", 1_004_000_000)]
    #[case("10ns", 10)]
    #[case("12us", 12_000)]
    #[case("12\u{b5}s", 12_000)]
    #[case("12\u{3bc}s", 12_000)]
    #[case("13ms", 13_000_000)]
    #[case("3h30m", 12_600_000_000_000)]
    #[case("10.5s4m", 250_500_000_000)]
    #[case("-2m3.4s", -123_400_000_000)]
    #[case("1h2m3s4ms5us6ns", 3_723_004_005_006)]
    #[case("39h9m14.425s", 140_954_425_000_000)]
    #[case("9007199254.740993ms", 9_007_199_254_740_993)]
    #[case("9223372036854775807ns", i64::MAX)]
    #[case("-9223372036854775808ns", i64::MIN)]
    #[case("-9223372036854775.808us", i64::MIN)]
    #[case("0.3333333333333333333h", 1_200_000_000_000)]
    #[case("0.100000000000000000000h", 360_000_000_000)]
    #[case("0.830103483285477580700h", 2_988_372_539_827)]
    fn durations_are_parsed_as_in_go(#[case] text: &str, #[case] nanos: i64) {
        assert_eq!(text.parse(), Ok(GoDuration::from_nanos(nanos)));
    }

    /// Shows API-5.
    #[rstest]
    #[case("", DurationError::Malformed)]
    #[case("-", DurationError::Malformed)]
    #[case("s", DurationError::Malformed)]
    #[case(".", DurationError::Malformed)]
    #[case("-.", DurationError::Malformed)]
    #[case(".s", DurationError::Malformed)]
    #[case("+.s", DurationError::Malformed)]
    #[case(" 5s", DurationError::Malformed)]
    #[case("--5s", DurationError::Malformed)]
    #[case("5s ", DurationError::UnknownUnit)]
    #[case("3", DurationError::MissingUnit)]
    #[case("00", DurationError::MissingUnit)]
    #[case("1.5", DurationError::MissingUnit)]
    #[case("1d", DurationError::UnknownUnit)]
    #[case("5S", DurationError::UnknownUnit)]
    #[case("1h-5m", DurationError::UnknownUnit)]
    #[case("9223372036854775808ns", DurationError::TooLong)]
    #[case("-9223372036854775809ns", DurationError::TooLong)]
    #[case("9223372036854775.808us", DurationError::TooLong)]
    #[case("3000000h", DurationError::TooLong)]
    #[case("99999999999999999999s", DurationError::TooLong)]
    #[case("-9223372036854775808ns1ns", DurationError::TooLong)]
    fn invalid_durations_are_rejected_as_in_go(#[case] text: &str, #[case] why: DurationError) {
        assert_eq!(text.parse::<GoDuration>(), Err(why));
    }

    /// Shows API-5.
    #[rstest]
    #[case(0, "0s")]
    #[case(1, "1ns")]
    #[case(1_100, "1.1\u{b5}s")]
    #[case(2_200_000, "2.2ms")]
    #[case(3_300_000_000, "3.3s")]
    #[case(245_000_000_000, "4m5s")]
    #[case(245_001_000_000, "4m5.001s")]
    #[case(18_367_001_000_000, "5h6m7.001s")]
    #[case(480_000_000_001, "8m0.000000001s")]
    #[case(7_200_000_000_000, "2h0m0s")]
    #[case(1_200_000_000_000, "20m0s")]
    #[case(90_000_000_000, "1m30s")]
    #[case(-1, "-1ns")]
    #[case(i64::MAX, "2562047h47m16.854775807s")]
    #[case(i64::MIN, "-2562047h47m16.854775808s")]
    fn durations_are_printed_as_in_go(#[case] nanos: i64, #[case] text: &str) {
        assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
    }

    #[test]
    fn other_durations_convert_and_saturate() {
        assert_eq!(GoDuration::from(Duration::from_secs(90)).to_string(), "1m30s");
        assert_eq!(GoDuration::from(Duration::MAX), GoDuration::from_nanos(i64::MAX));
        assert_eq!(GoDuration::from(SignedDuration::MIN), GoDuration::from_nanos(i64::MIN));
        assert_eq!(GoDuration::from_secs(-3).to_std(), Duration::ZERO);
        assert_eq!(SignedDuration::from(GoDuration::from_secs(-3)), SignedDuration::from_secs(-3));
    }

    proptest! {
        /// Shows API-5.
        #[test]
        fn printed_duration_is_parsed_again(nanos in any::<i64>()) {
            let duration = GoDuration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
            let _ = text.parse::<GoDuration>();
        }

        #[test]
        fn similar_texts_are_parsed_or_rejected(text in "[-+]?([0-9.]{0,22}(ns|us|\u{b5}s|\u{3bc}s|ms|s|m|h|d)?){0,4}") {
            if let Ok(duration) = text.parse::<GoDuration>() {
                prop_assert_eq!(duration.to_string().parse(), Ok(duration));
            }
        }
    }
}
