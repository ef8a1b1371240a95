//! Who may be drained now, where the number of drains is limited.
//!
//! Limits are off unless set. Who was asked first goes first; the name breaks ties, so that every reconcile agrees. Two kinds of
//! drain are never held back: one that is forced, because it moves nobody, and one that has waited for half of its time,
//! because a limit must never be the reason why pods are deleted instead of moved.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Request;
use super::mode::Mode;
use crate::wake::later;

/// How many nodes may be drained at once. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// In all.
    pub overall: Option<usize>,
    /// Of one MachineDeployment.
    pub per_deployment: Option<usize>,
}

/// A drain that runs or wants to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender<'a> {
    /// The MachineDeployment (the Machine's label `name`); drains without one share no limit of that kind.
    pub deployment: Option<&'a str>,
    /// Where it stands.
    pub standing: Standing,
}

/// Where a drain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It has begun.
    Running,
    /// It cannot be held back.
    Pressing,
    /// It wants to begin, since then.
    Waiting(Timestamp),
}

/// Whether a drain may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Now,
    /// It may not yet; the next drain that ends wakes it.
    Wait {
        /// How many go before it.
        ahead: usize,
    },
}

impl Standing {
    /// Where a drain that has not begun stands.
    pub fn of(request: &Request<'_>, now: Timestamp) -> Self {
        let Some(since) = request.reference else { return Self::Waiting(now) };
        let half = later(since, half(request.timeout));
        match Mode::of(request, now) {
            (Mode::Forced(_), _) => Self::Pressing,
            (Mode::Gentle, _) if half <= now && request.limits.force == super::Force::WhenOverdue => Self::Pressing,
            (Mode::Gentle, _) => Self::Waiting(since),
        }
    }
}

fn half(timeout: Duration) -> Duration {
    timeout / 2
}

/// Decides for all at once, so that the limits cannot be overspent by deciding one by one.
#[must_use]
pub fn admissions<'a>(contenders: &BTreeMap<&'a str, Contender<'a>>, caps: Caps) -> BTreeMap<&'a str, Admission> {
    let mut order: Vec<(Standing, &'a str)> = contenders.iter().map(|(name, c)| (c.standing, *name)).collect();
    order.sort_unstable(); // whoever runs or presses comes first and spends what there is to spend
    let mut spent = 0_usize;
    let mut spent_by: BTreeMap<&str, usize> = BTreeMap::new();
    let mut turns = BTreeMap::new();
    let mut ahead = 0;
    for (standing, name) in order {
        let deployment = contenders.get(name).and_then(|c| c.deployment);
        let of_deployment = deployment.and_then(|d| spent_by.get(d)).copied().unwrap_or_default();
        let free = caps.overall.is_none_or(|cap| spent < cap)
            && (deployment.is_none() || caps.per_deployment.is_none_or(|cap| of_deployment < cap));
        let turn = match standing {
            Standing::Running | Standing::Pressing => Admission::Now,
            Standing::Waiting(_) if free => Admission::Now,
            Standing::Waiting(_) => Admission::Wait { ahead },
        };
        if turn == Admission::Now {
            spent += 1;
            if let Some(deployment) = deployment {
                *spent_by.entry(deployment).or_default() += 1;
            }
        } else {
            ahead += 1;
        }
        turns.insert(name, turn);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contender(deployment: &str, standing: Standing) -> Contender<'_> {
        Contender { deployment: (!deployment.is_empty()).then_some(deployment), standing }
    }

    fn waiting(second: i64) -> Standing {
        Standing::Waiting(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn without_limits_everybody_goes() {
        let all = BTreeMap::from([("a", contender("d", waiting(1))), ("b", contender("d", waiting(2)))]);
        assert!(admissions(&all, Caps::default()).values().all(|turn| *turn == Admission::Now));
    }

    /// Shows DR-14.
    #[test]
    fn who_was_asked_first_goes_first_and_the_name_breaks_ties() {
        let caps = Caps { overall: Some(2), per_deployment: None };
        let all = BTreeMap::from([
            ("a", contender("", waiting(9))),
            ("b", contender("", waiting(5))),
            ("c", contender("", waiting(5))),
            ("d", contender("", Standing::Running)),
        ]);
        let turns = admissions(&all, caps);
        assert_eq!(turns["b"], Admission::Now);
        assert_eq!(turns["c"], Admission::Wait { ahead: 0 });
        assert_eq!(turns["a"], Admission::Wait { ahead: 1 });
        assert_eq!(turns["d"], Admission::Now);
    }

    /// Shows DR-14.
    #[test]
    fn a_deployment_at_its_limit_does_not_hold_up_another() {
        let caps = Caps { overall: Some(3), per_deployment: Some(1) };
        let all = BTreeMap::from([
            ("a", contender("one", waiting(1))),
            ("b", contender("one", waiting(2))),
            ("c", contender("two", waiting(3))),
            ("d", contender("", waiting(4))),
        ]);
        let turns = admissions(&all, caps);
        assert_eq!((turns["a"], turns["c"], turns["d"]), (Admission::Now, Admission::Now, Admission::Now));
        assert_eq!(turns["b"], Admission::Wait { ahead: 0 });
    }

    /// Shows DR-14.
    #[test]
    fn a_limit_is_never_the_reason_for_force() {
        let limits = super::super::Limits::default();
        let machine: api::Machine =
            serde_json::from_value(serde_json::json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
                .unwrap();
        let request =
            Request::for_deletion(&machine, "n", crate::Presence::Absent, &limits, &crate::safety::NO_OUTAGES);
        let at = |text: &str| Standing::of(&request, text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:30:00Z"), Standing::Waiting("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!(at("2026-01-01T01:00:00Z"), Standing::Pressing, "half of its two hours");
        assert_eq!(at("2026-01-01T03:00:00Z"), Standing::Pressing, "forced");
    }

    proptest! {
        /// Shows DR-14.
        #[test]
        fn limits_hold_for_all_that_can_be_held_back(
            all in prop::collection::vec((0usize..4, 0usize..3, 0i64..5), 0..30),
            overall in 0usize..10,
            each in 0usize..4,
        ) {
            let names: Vec<String> = (0..all.len()).map(|i| format!("m{i}")).collect();
            let deployments = ["", "d1", "d2", "d3"];
            let contenders: BTreeMap<&str, Contender<'_>> = names.iter().zip(&all).map(|(name, (deployment, standing, second))| {
                let standing = match standing { 0 => Standing::Running, 1 => Standing::Pressing, _ => waiting(*second) };
                (name.as_str(), contender(deployments[*deployment], standing))
            }).collect();
            let turns = admissions(&contenders, Caps { overall: Some(overall), per_deployment: Some(each) });
            let waiting = |name: &str| matches!(contenders[name].standing, Standing::Waiting(_));
            prop_assert!(turns.iter().all(|(name, turn)| waiting(name) || *turn == Admission::Now));
            let now: Vec<_> = turns.iter().filter(|(_, turn)| **turn == Admission::Now).map(|(name, _)| *name).collect();
            prop_assert!(now.len() <= overall || now.iter().filter(|name| waiting(name)).count() == 0);
            for deployment in &deployments[1..] {
                let mine: Vec<_> = now.iter().filter(|name| contenders[**name].deployment == Some(deployment)).collect();
                prop_assert!(mine.len() <= each || mine.iter().all(|name| !waiting(name)));
            }
        }
    }
}
