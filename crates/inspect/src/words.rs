//! Formats durations, times and numbers.

use jiff::{SignedDuration, Timestamp};

/// Formats a duration as kubectl formats ages.
#[must_use]
pub fn duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |whole: i64, unit: &str, rest: i64, of: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{of}") }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// Returns the time since an event.
#[must_use]
pub fn age(since: Option<Timestamp>, now: Timestamp) -> Option<String> {
    Some(duration(now.duration_since(since?)))
}

/// Formats a deadline: the time, and the duration until then.
#[must_use]
pub fn until(at: Timestamp, now: Timestamp) -> String {
    let day = if at.duration_since(now).as_hours() >= 24 { "%Y-%m-%d %H:%M:%S UTC" } else { "%H:%M:%S UTC" };
    let clock = at.strftime(day);
    if at <= now { format!("{clock} (now)") } else { format!("{clock} (in {})", duration(at.duration_since(now))) }
}

/// `1 machine`, `2 machines`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(-5, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(185, "3m5s")]
    #[case(3_600, "60m")]
    #[case(11_100, "3h5m")]
    #[case(90_000, "25h")]
    #[case(176_400, "2d1h")]
    #[case(900_000, "10d")]
    fn ages_are_formatted_as_in_kubectl(#[case] seconds: i64, #[case] shown: &str) {
        assert_eq!(duration(SignedDuration::from_secs(seconds)), shown);
    }
}
