//! Times in objects: whole seconds in UTC.
//!
//! Times in objects are written without fractions of a second. If a time in memory had a fraction, it would differ from the stored
//! one, and a planner that compares them would patch the object endlessly. Therefore the fraction is removed when a time is created.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::wire::Wire;

/// Returns `from` plus `by`, or [`Timestamp::MAX`] if the sum is out of range.
#[must_use]
pub fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(signed(by)).unwrap_or(Timestamp::MAX)
}

/// Returns `from` minus `by`, or [`Timestamp::MIN`] if the difference is out of range.
#[must_use]
pub fn earlier(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_sub(signed(by)).unwrap_or(Timestamp::MIN)
}

/// Returns `duration` as a signed duration, or [`SignedDuration::MAX`] if it is out of range.
#[must_use]
pub fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// A time in whole seconds.
///
/// There are hundreds of thousands of conditions with two optional times each, so `Option<Time>` must not need additional memory. The
/// seconds are stored with an inverted sign bit, which preserves the order and is never zero for a valid time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

impl Time {
    const SIGN: u64 = 1 << 63;

    fn from_second(second: i64) -> Self {
        Self(NonZeroU64::new(second.cast_unsigned() ^ Self::SIGN).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the timestamp.
    pub fn timestamp(self) -> Timestamp {
        let second = (self.0.get() ^ Self::SIGN).cast_signed();
        Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
    }

    /// Returns the time since `self`; negative if it is in the future.
    pub fn age(self, now: Timestamp) -> SignedDuration {
        now.duration_since(self.timestamp())
    }

    /// Adds a duration; saturates at the limits.
    #[must_use]
    pub fn plus(self, duration: SignedDuration) -> Self {
        self.timestamp()
            .checked_add(duration)
            .map_or(if duration.is_negative() { Timestamp::MIN } else { Timestamp::MAX }.into(), Into::into)
    }

    /// Returns the time in the default format of Go, as in descriptions and messages: `2025-01-31 12:00:00 +0000 UTC`.
    pub fn to_go_string(self) -> String {
        self.timestamp().strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
    }
}

impl From<Timestamp> for Time {
    fn from(time: Timestamp) -> Self {
        Self::from_second(time.as_second() - i64::from(time.subsec_nanosecond() < 0))
    }
}

impl From<&meta::Time> for Time {
    fn from(time: &meta::Time) -> Self {
        time.0.into()
    }
}

impl From<Time> for meta::Time {
    fn from(time: Time) -> Self {
        Self(time.timestamp())
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.timestamp().strftime("%Y-%m-%dT%H:%M:%SZ"))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for Time {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<Timestamp>().map(Into::into)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Wire for Time {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::deserialize(from)
    }

    // The schema lets only date-times in, but its idea of them is wider than Go's. One that cannot be read says as little as
    // none, and must not hide the object.
    fn read_present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Ok(String::deserialize(from)?.parse().ok())
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.serialize(to)
    }

    fn is_absent(&self) -> bool {
        false
    }

    fn schema() -> Value {
        json!({"type": "string", "format": "date-time"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_round_trips() {
        let now: Time = "2026-01-31T12:00:00.987654321Z".parse::<Timestamp>().unwrap().into();
        let json = serde_json::to_string(&now).unwrap();
        assert_eq!(json, r#""2026-01-31T12:00:00Z""#);
        assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), now);
    }

    #[test]
    fn optional_time_needs_eight_bytes_and_is_ordered() {
        assert_eq!(size_of::<Option<Time>>(), 8);
        let times = ["1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z"];
        let times = times.map(|text| text.parse::<Time>().unwrap());
        assert!(times.is_sorted());
        assert_eq!(times[0].to_string(), "1969-12-31T23:59:59Z");
        assert_eq!(Time::from(Timestamp::MIN).timestamp(), Timestamp::MIN);
    }

    #[test]
    fn other_time_zones_are_converted_to_utc() {
        assert_eq!("2026-01-31T13:00:00+01:00".parse::<Time>().unwrap().to_string(), "2026-01-31T12:00:00Z");
    }

    #[test]
    fn time_is_printed_as_in_go() {
        assert_eq!("2025-01-31T12:00:00Z".parse::<Time>().unwrap().to_go_string(), "2025-01-31 12:00:00 +0000 UTC");
    }

    #[test]
    fn ages_and_sums_saturate() {
        let time: Time = "2025-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(time.age("2025-01-31T12:01:00Z".parse().unwrap()), SignedDuration::from_secs(60));
        assert_eq!(time.plus(SignedDuration::MAX).timestamp().as_second(), Timestamp::MAX.as_second());
        assert_eq!(time.plus(SignedDuration::from_secs(3)).to_string(), "2025-01-31T12:00:03Z");
    }

    #[test]
    fn later_and_earlier_saturate() {
        let time: Timestamp = "2025-01-31T12:00:00Z".parse().unwrap();
        assert_eq!(later(time, Duration::from_mins(1)).to_string(), "2025-01-31T12:01:00Z");
        assert_eq!(earlier(time, Duration::from_mins(1)).to_string(), "2025-01-31T11:59:00Z");
        assert_eq!((later(time, Duration::MAX), earlier(time, Duration::MAX)), (Timestamp::MAX, Timestamp::MIN));
        assert_eq!(signed(Duration::MAX), SignedDuration::MAX);
    }
}
