//! The status text of a drain in progress.
//!
//! The text explains why a Machine is not deleted yet, and it is stored in an object that other clients watch. It names
//! the pods and their obstacles, those that a user must fix first. It is written only when it changes, and at most
//! twice a minute, because pods change more often than users read.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::blocker::{Blocker, Obstacle};
use meta::time::later;

/// Whether to write a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteProgress {
    /// Write it now.
    Now,
    /// It has changed, but the last text is too recent: check again at this time.
    At(Timestamp),
    /// It has not changed.
    Unchanged,
}

/// Returns whether to replace `old`, written at `written`, with `new`.
#[must_use]
pub fn write_progress(
    old: &str,
    new: &str,
    written: Option<Timestamp>,
    now: Timestamp,
    pause: Duration,
) -> WriteProgress {
    let due = written.map(|at| later(at, pause)).filter(|due| *due > now);
    match due {
        _ if old == new => WriteProgress::Unchanged,
        Some(due) => WriteProgress::At(due),
        None => WriteProgress::Now,
    }
}

/// Returns one line with the obstacles and the first pods of each. It depends only on the pods and their obstacles, so
/// the same state always results in the same text.
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
    fn obstacles_for_users_come_first_and_pods_are_grouped() {
        let budget = || Obstacle::Budget { budget: "ns/b".into(), needed: 2, healthy: 2 };
        let mut waiting: Vec<Blocker> = (0..5).map(|i| blocker(&format!("ns/e{i}"), Obstacle::Terminating)).collect();
        waiting.push(blocker("ns/w", budget()));
        assert_eq!(
            progress(&waiting),
            "Drain in progress: 6 pods left. ns/w: waiting for PodDisruptionBudget ns/b (requires 2 healthy pods, has 2); \
             ns/e0, ns/e1, ns/e2 and 2 more: terminating."
        );
        waiting.reverse();
        assert!(
            progress(&waiting).starts_with("Drain in progress: 6 pods left. ns/w"),
            "the order of the pods does not change the text"
        );
        assert_eq!(progress(&[]), "Drain in progress.");
    }

    /// Shows DR-11.
    #[rstest]
    #[case("a", "a", 3600, WriteProgress::Unchanged)]
    #[case("a", "b", 30, WriteProgress::Now)]
    #[case("a", "b", 29, WriteProgress::At("2026-01-01T00:00:01Z".parse().unwrap()))]
    fn text_is_written_when_it_changes_and_not_too_often(
        #[case] old: &str,
        #[case] new: &str,
        #[case] age: u64,
        #[case] expected: WriteProgress,
    ) {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let written = now - Duration::from_secs(age);
        assert_eq!(write_progress(old, new, Some(written), now, Duration::from_secs(30)), expected);
    }

    #[test]
    fn text_of_unknown_age_is_replaced() {
        assert_eq!(write_progress("a", "b", None, Timestamp::UNIX_EPOCH, Duration::from_secs(30)), WriteProgress::Now);
    }
}
