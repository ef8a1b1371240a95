//! Limits the number of concurrent drains.
//!
//! There is no limit by default. Drains are admitted in the order of their requests; the name breaks ties, so that all
//! reconciles agree. Two kinds of drains are never delayed: forced drains, because they move no pods, and drains that
//! have waited for half of their timeout, because the limit must never cause pods to be deleted instead of evicted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Request;
use super::mode::Mode;
use meta::time::later;

/// Maximum number of concurrent drains. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// In total.
    pub overall: Option<usize>,
    /// Per MachineDeployment.
    pub per_deployment: Option<usize>,
}

/// A drain that is running or waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The MachineDeployment (the Machine's label `name`). Drains without one count only towards the total.
    pub deployment: Option<&'a str>,
    /// The state in the queue.
    pub state: QueueState,
}

/// The state of a drain in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueState {
    /// The drain is running.
    Running,
    /// The drain must not be delayed.
    Exempt,
    /// The drain is waiting since this time.
    Waiting(Timestamp),
}

/// Whether a drain may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may run.
    Now,
    /// It must wait; the next drain that ends wakes it.
    Wait {
        /// Number of drains before it in the queue.
        ahead: usize,
    },
}

impl QueueState {
    /// Returns the state of a drain that is not running yet.
    pub fn of(request: &Request<'_>, now: Timestamp) -> Self {
        let Some(since) = request.reference else { return Self::Waiting(now) };
        let half = later(since, half(request.timeout));
        match Mode::of(request, now) {
            (Mode::Force(_), _) => Self::Exempt,
            (Mode::Evict, _) if half <= now && request.limits.force == super::Force::WhenOverdue => Self::Exempt,
            (Mode::Evict, _) => Self::Waiting(since),
        }
    }
}

fn half(timeout: Duration) -> Duration {
    timeout / 2
}

/// Decides for all drains together, so that the limits are never exceeded.
#[must_use]
pub fn admissions<'a>(candidates: &BTreeMap<&'a str, Candidate<'a>>, caps: Caps) -> BTreeMap<&'a str, Admission> {
    let mut order: Vec<(QueueState, &'a str)> = candidates.iter().map(|(name, c)| (c.state, *name)).collect();
    order.sort_unstable(); // running and exempt drains come first and use the capacity
    let mut used = 0_usize;
    let mut used_by: BTreeMap<&str, usize> = BTreeMap::new();
    let mut result = BTreeMap::new();
    let mut ahead = 0;
    for (state, name) in order {
        let deployment = candidates.get(name).and_then(|c| c.deployment);
        let of_deployment = deployment.and_then(|d| used_by.get(d)).copied().unwrap_or_default();
        let free = caps.overall.is_none_or(|cap| used < cap)
            && (deployment.is_none() || caps.per_deployment.is_none_or(|cap| of_deployment < cap));
        let admission = match state {
            QueueState::Running | QueueState::Exempt => Admission::Now,
            QueueState::Waiting(_) if free => Admission::Now,
            QueueState::Waiting(_) => Admission::Wait { ahead },
        };
        if admission == Admission::Now {
            used += 1;
            if let Some(deployment) = deployment {
                *used_by.entry(deployment).or_default() += 1;
            }
        } else {
            ahead += 1;
        }
        result.insert(name, admission);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(deployment: &str, state: QueueState) -> Candidate<'_> {
        Candidate { deployment: (!deployment.is_empty()).then_some(deployment), state }
    }

    fn waiting(second: i64) -> QueueState {
        QueueState::Waiting(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn all_drains_are_admitted_without_limits() {
        let all = BTreeMap::from([("a", candidate("d", waiting(1))), ("b", candidate("d", waiting(2)))]);
        assert!(admissions(&all, Caps::default()).values().all(|admission| *admission == Admission::Now));
    }

    /// Shows DR-14.
    #[test]
    fn drains_are_admitted_by_request_time_then_by_name() {
        let caps = Caps { overall: Some(2), per_deployment: None };
        let all = BTreeMap::from([
            ("a", candidate("", waiting(9))),
            ("b", candidate("", waiting(5))),
            ("c", candidate("", waiting(5))),
            ("d", candidate("", QueueState::Running)),
        ]);
        let result = admissions(&all, caps);
        assert_eq!(result["b"], Admission::Now);
        assert_eq!(result["c"], Admission::Wait { ahead: 0 });
        assert_eq!(result["a"], Admission::Wait { ahead: 1 });
        assert_eq!(result["d"], Admission::Now);
    }

    /// Shows DR-14.
    #[test]
    fn deployment_at_its_limit_does_not_delay_another() {
        let caps = Caps { overall: Some(3), per_deployment: Some(1) };
        let all = BTreeMap::from([
            ("a", candidate("one", waiting(1))),
            ("b", candidate("one", waiting(2))),
            ("c", candidate("two", waiting(3))),
            ("d", candidate("", waiting(4))),
        ]);
        let result = admissions(&all, caps);
        assert_eq!((result["a"], result["c"], result["d"]), (Admission::Now, Admission::Now, Admission::Now));
        assert_eq!(result["b"], Admission::Wait { ahead: 0 });
    }

    /// Shows DR-14.
    #[test]
    fn drain_is_exempt_after_half_of_its_timeout() {
        let limits = super::super::Limits::default();
        let machine: api::Machine =
            serde_json::from_value(serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
                .unwrap();
        let request =
            Request::for_deletion(&machine, "n", crate::Presence::Absent, &limits, &crate::safety::NO_OUTAGES);
        let at = |text: &str| QueueState::of(&request, text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:30:00Z"), QueueState::Waiting("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(at("2026-01-01T01:00:00Z"), QueueState::Exempt, "half of its two hours");
        assert_eq!(at("2026-01-01T03:00:00Z"), QueueState::Exempt, "forced");
    }

    proptest! {
        /// Shows DR-14.
        #[test]
        fn limits_hold_for_all_drains_that_are_not_exempt(
            all in prop::collection::vec((0usize..4, 0usize..3, 0i64..5), 0..30),
            overall in 0usize..10,
            each in 0usize..4,
        ) {
            let names: Vec<String> = (0..all.len()).map(|i| format!("m{i}")).collect();
            let deployments = ["", "d1", "d2", "d3"];
            let candidates: BTreeMap<&str, Candidate<'_>> = names.iter().zip(&all).map(|(name, (deployment, state, second))| {
                let state = match state { 0 => QueueState::Running, 1 => QueueState::Exempt, _ => waiting(*second) };
                (name.as_str(), candidate(deployments[*deployment], state))
            }).collect();
            let result = admissions(&candidates, Caps { overall: Some(overall), per_deployment: Some(each) });
            let waiting = |name: &str| matches!(candidates[name].state, QueueState::Waiting(_));
            prop_assert!(result.iter().all(|(name, admission)| waiting(name) || *admission == Admission::Now));
            let now: Vec<_> = result.iter().filter(|(_, admission)| **admission == Admission::Now).map(|(name, _)| *name).collect();
            prop_assert!(now.len() <= overall || now.iter().filter(|name| waiting(name)).count() == 0);
            for deployment in &deployments[1..] {
                let mine: Vec<_> = now.iter().filter(|name| candidates[**name].deployment == Some(deployment)).collect();
                prop_assert!(mine.len() <= each || mine.iter().all(|name| !waiting(name)));
            }
        }
    }
}
