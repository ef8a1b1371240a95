//! What a drain says while it waits.
//!
//! The text is for people who wonder why a machine does not go, and it is stored in an object that others watch. So it names the
//! pods and their obstacles, those that need somebody's help first, and it is written only when it says something new and not
//! more often than twice a minute: pods come and go faster than anybody reads.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::blocker::{Blocker, Obstacle};
use crate::wake::later;

/// Whether a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Write it.
    Now,
    /// It is news, but the last text is too fresh: look again then.
    At(Timestamp),
    /// It says what is written already.
    Nothing,
}

/// Whether to replace `old`, written at `written`, by `new`.
#[must_use]
pub fn worth_writing(old: &str, new: &str, written: Option<Timestamp>, now: Timestamp, pause: Duration) -> Worth {
    let due = written.map(|at| later(at, pause)).filter(|due| *due > now);
    match due {
        _ if old == new => Worth::Nothing,
        Some(due) => Worth::At(due),
        None => Worth::Now,
    }
}

/// What is waited for, in a line: obstacles with the first pods that meet them. Depends on nothing but who waits for what, so
/// the same state always gives the same text.
#[must_use]
pub fn progress(waiting: &[Blocker]) -> String {
    const OBSTACLES: usize = 3;
    const PODS: usize = 3;
    let mut groups: BTreeMap<&Obstacle, Vec<&str>> = BTreeMap::new();
    for blocker in waiting {
        groups.entry(&blocker.obstacle).or_default().push(&blocker.pod);
    }
    let more = groups.len().saturating_sub(OBSTACLES);
    let mut parts: Vec<String> = groups
        .into_iter()
        .take(OBSTACLES)
        .map(|(obstacle, mut pods)| {
            pods.sort_unstable();
            let rest = pods.len().saturating_sub(PODS);
            pods.truncate(PODS);
            let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
            format!("{}{rest}: {obstacle}", pods.join(", "))
        })
        .collect();
    if more > 0 {
        parts.push(format!("{more} other reasons"));
    }
    let pods = if waiting.len() == 1 { "pod" } else { "pods" };
    match parts.len() {
        0 => "Drain in progress.".to_owned(),
        _ => format!("Drain in progress: {} {pods} left. {}.", waiting.len(), parts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn blocker(pod: &str, obstacle: Obstacle) -> Blocker {
        Blocker { obstacle, pod: pod.into() }
    }

    /// Shows DR-11.
    #[test]
    fn what_needs_help_comes_first_and_a_crowd_is_told_in_one_line() {
        let budget = || Obstacle::Budget { budget: "ns/b".into(), needed: 2, healthy: 2 };
        let mut waiting: Vec<Blocker> = (0..5).map(|i| blocker(&format!("ns/e{i}"), Obstacle::Ending)).collect();
        waiting.push(blocker("ns/w", budget()));
        assert_eq!(
            progress(&waiting),
            "Drain in progress: 6 pods left. ns/w: pod disruption budget ns/b needs 2 healthy pods and has 2; \
             ns/e0, ns/e1, ns/e2 and 2 more: ending."
        );
        waiting.reverse();
        assert!(
            progress(&waiting).starts_with("Drain in progress: 6 pods left. ns/w"),
            "the order of connectivity is no news"
        );
        assert_eq!(progress(&[]), "Drain in progress.");
    }

    /// Shows DR-11.
    #[rstest]
    #[case("a", "a", 3600, Worth::Nothing)]
    #[case("a", "b", 30, Worth::Now)]
    #[case("a", "b", 29, Worth::At("2026-01-01T00:00:01Z".parse().unwrap()))]
    fn a_text_is_written_when_it_is_news_and_not_too_often(
        #[case] old: &str,
        #[case] new: &str,
        #[case] age: u64,
        #[case] expected: Worth,
    ) {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let written = now - Duration::from_secs(age);
        assert_eq!(worth_writing(old, new, Some(written), now, Duration::from_secs(30)), expected);
    }

    #[test]
    fn a_text_of_unknown_age_is_replaced() {
        assert_eq!(worth_writing("a", "b", None, Timestamp::UNIX_EPOCH, Duration::from_secs(30)), Worth::Now);
    }
}
