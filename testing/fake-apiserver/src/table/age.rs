//! How long ago something was, in the few letters that people have learned to read: two units at most, fewer as it gets older.

use jiff::SignedDuration;

/// A duration for people.
pub(super) fn shown(duration: SignedDuration) -> String {
    let two = |whole: i64, unit: char, rest: i64, small: char| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{small}") }
    };
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    // A clock may be a little ahead of the one that wrote the time.
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 730 => format!("{days}d"),
        _ if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(-5, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(332, "5m32s")]
    #[case(600, "10m")]
    #[case(10_799, "179m")]
    #[case(10_800, "3h")]
    #[case(3 * 3600 + 60, "3h1m")]
    #[case(8 * 3600, "8h")]
    #[case(48 * 3600, "2d")]
    #[case(49 * 3600, "2d1h")]
    #[case(8 * 86400 + 3600, "8d")]
    #[case(729 * 86400, "729d")]
    #[case(731 * 86400, "2y1d")]
    #[case(3650 * 86400, "10y")]
    fn an_age_is_told_as_people_know_it(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(shown(SignedDuration::from_secs(seconds)), expected);
    }
}
