//! Properties of all drains under random faults.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::cluster::{Budget, Cluster, Disk, Pod, Served, at, secs};
use meta::time::later;

/// An event during the drain.
#[derive(Clone, Debug)]
enum Mishap {
    /// The process restarts.
    Forget,
    /// The next request fails.
    Fault(Answer),
    /// The next request is executed, but its response is lost.
    Lose,
    /// A PodDisruptionBudget changes.
    Budget(i32),
    /// Another pod is scheduled.
    Late(Pod),
    /// A user requests force.
    Label,
}

fn pod() -> impl Strategy<Value = Pod> {
    let ends = prop_oneof![1 => Just(None), 9 => (0u64..40).prop_map(Some)];
    let budget = prop::option::of(prop::sample::select(vec!["web", "db"]));
    let claims = prop::collection::vec(prop::sample::select(vec!["v0", "v1", "v2", "v3", "v4", "v5"]), 0..3);
    (ends, 0u64..40, budget, claims, prop::option::of(-1i32..3)).prop_map(
        |(ends_in, grace, budget, claims, priority)| {
            let pod = Pod::new("unnamed").with(json!({"spec": {"priority": priority}}));
            Pod { grace, ends_in, budget, claims: claims.into_iter().map(str::to_owned).collect(), ..pod }
        },
    )
}

fn budget() -> impl Strategy<Value = Budget> {
    (1i32..5, 0i32..5, prop::option::of(1u64..60), 0i32..2).prop_map(|(expected, needed, heals, ill)| {
        let mut budget = Budget::new(expected, needed.min(expected), heals);
        budget.healthy = (expected - ill).max(0);
        budget
    })
}

fn mishap() -> impl Strategy<Value = (u64, Mishap)> {
    let busy = || Answer::lost("busy".into());
    let answers = vec![
        busy(),
        Answer::Refused(Refusal::NamespaceTerminating),
        Answer::Refused(Refusal::Budget { retry_after: Some(secs(10)) }),
        Answer::read(&Reply { code: 403, message: "no", about: "pods", causes: &[], retry_after: None }),
    ];
    let what = prop_oneof![
        4 => Just(Mishap::Forget),
        4 => prop::sample::select(answers).prop_map(Mishap::Fault),
        3 => Just(Mishap::Lose),
        2 => (0i32..5).prop_map(Mishap::Budget),
        2 => pod().prop_map(Mishap::Late),
        1 => Just(Mishap::Label),
    ];
    (0u64..500, what)
}

prop_compose! {
    fn cluster()(
        pods in prop::collection::vec(pod(), 0..7),
        (web, db) in (budget(), budget()),
        detach in prop_oneof![1 => Just(None), 9 => (0u64..60).prop_map(Some)],
        attach in prop_oneof![2 => Just(None), 8 => (0u64..60).prop_map(Some)],
        foreign in prop::collection::btree_set(prop::sample::select(vec!["v0", "v1"]), 0..2),
        (timeout, retries) in (0u64..600, 0i32..20),
        sees_attachments in prop::bool::weighted(0.9),
    ) -> Cluster {
        let named = pods.into_iter().enumerate().map(|(i, pod)| Pod { name: format!("p{i}"), ..pod });
        let mut cluster = Cluster::new(named).budget("web", web).budget("db", db);
        (cluster.detach_in, cluster.attach_in) = (detach, attach);
        cluster.foreign = foreign.into_iter().map(str::to_owned).collect();
        cluster.machine["spec"] = json!({"drainTimeout": format!("{timeout}s"), "maxEvictRetries": retries});
        cluster.sees_attachments = sees_attachments;
        cluster
    }
}

/// One drain and its history.
struct Scenario {
    cluster: Cluster,
    timeout: u64,
    retries: u64,
    forgot: Vec<Timestamp>,
    labelled: Option<Timestamp>,
    budget_changes: usize,
}

impl Scenario {
    fn of(cluster: Cluster, mut mishaps: Vec<(u64, Mishap)>) -> Self {
        mishaps.sort_by_key(|(second, _)| *second);
        let spec: Duration = cluster.machine["spec"]["drainTimeout"]
            .as_str()
            .and_then(|t| t.parse::<api::GoDuration>().ok())
            .unwrap()
            .to_std();
        let asked = cluster.machine["spec"]["maxEvictRetries"].as_u64().unwrap();
        let retries = asked.min(spec.as_secs() / 20);
        let mut scenario =
            Self { cluster, timeout: spec.as_secs(), retries, forgot: vec![], labelled: None, budget_changes: 0 };
        for (i, (second, mishap)) in mishaps.into_iter().enumerate() {
            while scenario.goes_on() && scenario.cluster.now < at(second) {
                scenario.cluster.turn(at(second));
            }
            if scenario.goes_on() {
                scenario.befall(mishap, i);
            }
        }
        let end = at(scenario.timeout + 120);
        while scenario.goes_on() && scenario.cluster.now < end {
            scenario.cluster.turn(end);
        }
        scenario
    }

    fn goes_on(&mut self) -> bool {
        self.cluster.reconcile();
        matches!(self.cluster.last.as_ref().unwrap().outcome, Outcome::InProgress { .. })
    }

    fn befall(&mut self, mishap: Mishap, i: usize) {
        let cluster = &mut self.cluster;
        match mishap {
            Mishap::Forget => {
                cluster.memory = Memory::default();
                self.forgot.push(cluster.now);
            }
            Mishap::Fault(answer) => cluster.faults.push(answer),
            Mishap::Lose => cluster.lost += 1,
            Mishap::Budget(needed) => {
                cluster.budgets.get_mut("web").unwrap().set_needed(needed);
                self.budget_changes += 1;
            }
            Mishap::Late(pod) => {
                for claim in &pod.claims {
                    cluster.disks.insert(claim.clone(), Disk::Here);
                }
                cluster.pods.push(Pod { name: format!("late{i}"), ..pod });
            }
            Mishap::Label => {
                cluster.machine["metadata"]["labels"] = json!({"force-deletion": "true"});
                self.labelled.get_or_insert(cluster.now);
            }
        }
    }

    fn is_forced_at(&self, now: Timestamp) -> bool {
        now > at(self.timeout) || self.labelled.is_some_and(|since| since <= now)
    }

    fn gentle(&self) -> impl Iterator<Item = &Served> {
        self.cluster.served.iter().filter(|served| !self.is_forced_at(served.at))
    }

    /// Claims that only one pod has used and that the driver knows.
    fn own(&self, pod: &Pod) -> Vec<String> {
        let everybody: BTreeSet<(String, &Vec<String>)> = self
            .cluster
            .served
            .iter()
            .map(|served| &served.pod)
            .chain(&self.cluster.pods)
            .map(|pod| (pod.uid(), &pod.claims))
            .collect();
        let uses = |claim: &String| everybody.iter().flat_map(|(_, c)| c.iter()).filter(|c| *c == claim).count();
        pod.claims.iter().filter(|c| uses(c) == 1 && !self.cluster.foreign.contains(*c)).cloned().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 64 } else { 1024 }))]

    /// Shows DR-5.
    #[test]
    fn budgets_are_respected_unless_the_drain_is_forced(cluster in cluster(), mishaps in prop::collection::vec(mishap(), 0..8)) {
        let scenario = Scenario::of(cluster, mishaps);
        let limit = secs(scenario.retries * 20);
        for served in scenario.gentle().filter(|served| served.verb == Verb::Delete) {
            let first = scenario.cluster.served.iter().find(|other| {
                let counts = matches!(other.answer, Answer::Refused(_)) || !other.pod.claims.is_empty();
                other.pod.name == served.pod.name && counts && !matches!(other.answer, Answer::Accepted | Answer::Gone)
            });
            let since = first.map(|first| first.at);
            prop_assert!(
                limit.is_zero() || since.is_some_and(|since| later(since, limit) <= served.at),
                "{served:#?} after {since:?}"
            );
        }
    }

    /// Shows DR-9, MC-W63.
    #[test]
    fn pods_with_volumes_are_evicted_one_after_the_other(
        cluster in cluster(),
        mishaps in prop::collection::vec(mishap(), 0..8),
    ) {
        let scenario = Scenario::of(cluster, mishaps);
        let limits = &scenario.cluster.limits;
        let with: Vec<&Served> = scenario.gentle().filter(|served| !served.pod.claims.is_empty()).collect();
        for (i, next) in with.iter().enumerate() {
            for before in with[..i].iter().filter(|b| b.answer == Answer::Accepted && b.pod.name != next.pod.name) {
                let grace = if before.verb == Verb::Evict { before.pod.grace } else { 0 };
                let forgot = scenario.forgot.iter().rfind(|f| **f >= before.at && **f <= next.at);
                // A restarted process uses the deletionTimestamp, which has whole seconds.
                let whole_second = Timestamp::from_second(before.at.as_second()).unwrap();
                let accepted = if forgot.is_some() { whole_second } else { before.at };
                let over = later(accepted, secs(grace) + limits.detach_timeout);
                for claim in scenario.own(&before.pod) {
                    let left = scenario.cluster.left.get(&claim).copied();
                    let detached = left.is_some_and(|left| left <= next.at);
                    // A restarted process waits for the volumes that are being detached at that time, if the
                    // attachments are available.
                    let looked_in_vain = |forgot: &Timestamp| {
                        !scenario.cluster.sees_attachments || later(*forgot, limits.detach_timeout) <= next.at
                    };
                    let given_up = over <= next.at || forgot.is_some_and(looked_in_vain);
                    prop_assert!(detached || given_up, "{claim} of {before:#?}\nwas on the node at {next:#?}");
                    let arrived = left.is_some_and(|left| {
                        let soon = scenario.cluster.attach_in.filter(|_| scenario.cluster.sees_attachments);
                        let waited = soon.map_or(limits.reattach_timeout, |s| secs(s).min(limits.reattach_timeout));
                        later(left, waited) <= next.at
                    });
                    prop_assert!(arrived || given_up || forgot.is_some(), "{claim} of {before:#?}\nhad not arrived at {next:#?}");
                }
            }
        }
    }

    /// Shows DR-Q5, DR-Q11, DR-4, MC-W62.
    #[test]
    fn every_drain_ends_shortly_after_its_deadline(
        cluster in cluster(),
        mishaps in prop::collection::vec(mishap(), 0..8),
    ) {
        let mut scenario = Scenario::of(cluster, mishaps);
        prop_assert!(!scenario.goes_on(), "{:#?}", scenario.cluster.last);
        let end = later(at(scenario.timeout), scenario.cluster.limits.forced_timeout + secs(1));
        prop_assert!(scenario.cluster.now <= end, "ended at {}", scenario.cluster.now);
        let again = scenario.cluster.plan();
        prop_assert!(again.steps.is_empty() && again.notes.is_empty(), "{again:#?}");
        if again.outcome == Outcome::Drained(Mode::Evict) {
            for pod in &scenario.cluster.pods {
                prop_assert!(!pod.claims.is_empty() && pod.deleted_at.is_some(), "{pod:#?} was not deleted");
            }
        }
    }

    /// Shows DR-7.
    #[test]
    fn requests_are_not_repeated_in_a_loop(cluster in cluster(), mishaps in prop::collection::vec(mishap(), 0..8)) {
        let scenario = Scenario::of(cluster, mishaps);
        let pods: BTreeSet<&str> = scenario.cluster.served.iter().map(|served| served.pod.name.as_str()).collect();
        let disruptions = scenario.forgot.len() + scenario.budget_changes + 2 * scenario.cluster.served.iter()
            .filter(|served| served.answer == Answer::Accepted).count();
        let most = usize::try_from(scenario.cluster.elapsed()).unwrap() / 15 + 4 + disruptions;
        for pod in pods {
            let asked = scenario.cluster.served.iter().filter(|served| served.pod.name == pod).count();
            prop_assert!(asked <= most, "{pod} was asked {asked} times in {}", scenario.cluster.elapsed());
        }
    }
}
