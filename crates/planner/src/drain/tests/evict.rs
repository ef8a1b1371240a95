//! Evicting drains.

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::cluster::{Budget, Cluster, Pod, at, secs};

const EVICTED: Outcome = Outcome::Drained(Mode::Evict);

#[test]
fn empty_node_is_drained_without_a_request() {
    let mut cluster = Cluster::new([]);
    assert_eq!(cluster.drain(), EVICTED);
    assert!(cluster.history.is_empty());
}

/// Shows DR-1.
#[test]
fn pods_that_are_not_drained_are_ignored() {
    let daemon = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true }]);
    let mut cluster = Cluster::new([
        Pod::new("agent").with(json!({"metadata": {"ownerReferences": daemon}})),
        Pod::new("static").with(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
    ]);
    assert_eq!(cluster.drain(), EVICTED);
    assert!(cluster.history.is_empty());
}

/// Shows DR-2.
#[test]
fn pods_without_volumes_are_evicted_in_parallel() {
    let mut cluster = Cluster::new((0..100).map(|i| Pod::new(format!("p{i}")).ending_in(Some(i % 20))));
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.elapsed(), 19);
    assert_eq!(cluster.requests().len(), 100, "one request for each");
    assert!(cluster.requests().iter().all(|(second, what)| *second == 0 && what.starts_with("evict")));
}

#[test]
fn terminating_pod_is_awaited_and_not_evicted() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.pods[0].deleted_at = Some(cluster.now);
    cluster.pods[0].granted_grace = 30;
    cluster.pods[0].ends_at = Some(at(10));
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!((cluster.elapsed(), cluster.requests().len()), (10, 0));
}

/// Shows DR-Q11, MC-W62.
#[test]
fn pod_that_never_terminates_fails_the_drain_until_forced() {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let mut cluster = Cluster::new([Pod::new("a").with(held).ending_in(None)]);
    cluster.until(59);
    assert_eq!((cluster.waiting(), cluster.failure()), (vec!["ns/a: terminating".to_owned()], None));
    cluster.until(60);
    assert_eq!(cluster.waiting(), ["ns/a: has terminated, but has finalizer example.com/hold"]);
    let text = "error when waiting for pod \"a\"/node terminating: context deadline exceeded (finalizers: \
                example.com/hold)";
    assert_eq!(cluster.failure(), Some(text));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Timeout)));
    assert_eq!(cluster.elapsed(), 7200);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (7200, "delete pod ns/a")]);
}

/// Shows DR-Q5, MC-W64.
#[test]
fn pod_that_appears_during_the_drain_is_drained() {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(Some(20))]);
    cluster.until(10);
    cluster.pods.push(Pod::new("late"));
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (10, "evict pod ns/late")]);
}

/// Shows DR-Q6.
#[test]
fn recreated_pod_of_the_same_name_is_evicted_again() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Gone];
    cluster.reconcile();
    cluster.pods[0].more = json!({"metadata": {"uid": "uid-second"}});
    let plan = cluster.plan();
    let second = PodId { namespace: "ns".into(), name: "a".into(), uid: "uid-second".into() };
    assert_eq!(plan.steps, [Step::Evict(second)]);
}

/// Shows DR-Q8.
#[test]
fn deleted_pod_counts_only_when_the_watch_confirms_it() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Gone];
    cluster.until(59);
    assert_eq!(cluster.waiting(), ["ns/a: terminating"]);
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (60, "evict pod ns/a")]);
}

/// Shows DR-Q8.
#[test]
fn undecodable_pod_blocks_the_drain() {
    let mut cluster = Cluster::new([]);
    cluster.unreadable = vec!["ns/odd".into()];
    cluster.until(5);
    assert_eq!(cluster.waiting(), ["ns/odd: cannot be decoded"]);
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Timeout)));
}

/// Shows DR-Q8.
#[test]
fn request_without_response_is_repeated() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Accepted]; // accepted without effect
    cluster.lost = 1;
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (60, "evict pod ns/a")]);
}

/// Shows DR-7.
#[test]
fn budget_admits_as_many_pods_as_it_allows_immediately() {
    let mut cluster =
        Cluster::new((0..4).map(|i| Pod::new(format!("p{i}")).under("web"))).budget("web", Budget::new(4, 4, Some(10)));
    cluster.budgets.get_mut("web").unwrap().healthy = 3; // a pod on another Node is down: the budget is exhausted, not misconfigured
    cluster.until(1);
    assert_eq!(cluster.requests().len(), 4, "each is tried once");
    assert_eq!(cluster.failure(), None);
    assert_eq!(cluster.waiting()[0], "ns/p0: waiting for PodDisruptionBudget ns/web (requires 4 healthy pods, has 3)");
    cluster.budgets.get_mut("web").unwrap().set_needed(1);
    cluster.reconcile();
    assert_eq!(cluster.requests().len(), 6, "two evictions are allowed and requested");
    assert_eq!(cluster.pods.len(), 2);
}

/// Shows DR-7.
#[test]
fn unchanged_budget_is_not_retried_in_a_loop() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 1, None));
    let refused = Answer::Refused(Refusal::Budget { retry_after: None });
    cluster.faults = vec![refused; 1000]; // the server refuses, independent of the status
    cluster.until(120);
    assert!((7..=12).contains(&cluster.requests().len()), "{:?}", cluster.requests());
}

/// Shows DR-8.
#[test]
fn retry_after_of_the_server_is_respected() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Refused(Refusal::Budget { retry_after: Some(secs(17)) })];
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (17, "evict pod ns/a")]);
}

/// Shows DR-6.
#[test]
fn misconfigured_budget_fails_the_drain_with_the_text_of_mcm() {
    let mut cluster =
        Cluster::new([Pod::new("a").under("web"), Pod::new("b")]).budget("web", Budget::new(3, 3, Some(1)));
    cluster.until(1);
    let text = "error while evicting pod \"a\": pod disruption budget ns/web is misconfigured and requires zero voluntary evictions";
    assert_eq!(cluster.failure(), Some(text));
    cluster.budgets.get_mut("web").unwrap().set_needed(2);
    assert_eq!(cluster.drain(), EVICTED, "the pod is evicted immediately after the budget is fixed");
    assert_eq!(cluster.elapsed(), 1);
}

/// Shows DR-11.
#[test]
fn several_failures_are_joined_in_brackets_without_duplicates() {
    let mut cluster = Cluster::new([Pod::new("a").under("web"), Pod::new("b").under("web")])
        .budget("web", Budget::new(3, 3, Some(1)));
    cluster.until(1);
    let text = |pod: &str| {
        format!(
            "error while evicting pod \"{pod}\": pod disruption budget ns/web is misconfigured and requires zero voluntary evictions"
        )
    };
    assert_eq!(cluster.failure(), Some(format!("[{}, {}]", text("a"), text("b")).as_str()));
}

/// Shows DR-5.
#[test]
fn pod_is_deleted_when_refusals_last_as_long_as_in_mcm() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    assert_eq!(cluster.drain(), EVICTED);
    let requests = cluster.requests();
    assert_eq!(requests.last(), Some(&(120, "delete pod ns/a")), "six times twenty seconds after the first refusal");
    assert!(requests[..requests.len() - 1].iter().all(|(_, what)| what.starts_with("evict")));
}

/// Shows DR-6.
#[test]
fn misconfigured_budget_is_respected_until_the_deadline() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Timeout)));
    assert_eq!(cluster.elapsed(), 7200);
    assert!(cluster.requests().len() < 60, "and is asked about ever more rarely: {}", cluster.requests().len());
}

/// Shows DR-Q10.
#[rstest]
#[case(json!({"maxEvictRetries": 0}))]
#[case(json!({"drainTimeout": "10s"}))]
fn pods_are_deleted_immediately_when_retries_are_zero(#[case] spec: serde_json::Value) {
    let mut cluster = Cluster::new([Pod::new("a"), Pod::new("b").claiming(["data"])]);
    cluster.machine["spec"] = spec;
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "delete pod ns/a"), (0, "delete pod ns/b")]);
}

/// Shows DR-13.
#[test]
fn drain_waits_without_limit_when_force_is_disabled() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.limits.force = Force::OnlyWhenAsked;
    cluster.machine["spec"] = json!({"maxEvictRetries": 0, "drainTimeout": "1s"});
    cluster.until(20_000);
    assert!(cluster.requests().iter().all(|(_, what)| what.starts_with("evict")));
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "true"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Force(Cause::Label)));
}

/// Shows DR-13.
#[test]
fn skipped_pods_stay_and_last_pods_are_evicted_last() {
    let labelled = |value: &str| json!({"metadata": {"labels": {"drain": value}}});
    let selector = |value: &str| api::LabelSelector {
        match_labels: [("drain".to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    let mut cluster = Cluster::new([
        Pod::new("log").with(labelled("last")),
        Pod::new("stay").with(labelled("skip")),
        Pod::new("web").ending_in(Some(9)),
    ]);
    cluster.limits.skip = Some(selector("skip"));
    cluster.limits.last = Some(selector("last"));
    cluster.until(1);
    assert_eq!(cluster.waiting(), ["ns/web: terminating", "ns/log: waiting for all other pods"]);
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/web"), (9, "evict pod ns/log")]);
}

/// Shows DR-8.
#[rstest]
#[case::ending_namespace(Answer::Refused(Refusal::NamespaceTerminating), None)]
#[case::several_budgets(Answer::Refused(Refusal::SeveralBudgets), None)]
#[case::busy(Answer::lost("down".into()), None)]
#[case::forbidden(
    Answer::read(&Reply { code: 403, message: "no", about: "pods", causes: &[], retry_after: None }),
    Some("error when evicting pod \"a\": no scheduled on node node")
)]
fn failed_eviction_is_retried_and_reported_when_permanent(#[case] answer: Answer, #[case] failure: Option<&str>) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![answer];
    cluster.until(1);
    assert_eq!(cluster.failure(), failure);
    assert_eq!(cluster.drain(), EVICTED);
    assert!((4..=5).contains(&cluster.elapsed()), "after a short pause");
}

/// Shows DR-5.
#[rstest]
#[case::refusals_count(Answer::Refused(Refusal::NamespaceTerminating), 60)]
#[case::several_budgets_too(Answer::Refused(Refusal::SeveralBudgets), 60)]
#[case::failures_do_not(Answer::lost("down".into()), 7200)]
fn only_refusals_lead_to_deletion_before_the_deadline(#[case] answer: Answer, #[case] second: u64) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.machine["spec"] = json!({"maxEvictRetries": 3});
    while cluster.pods.len() == 1 {
        let deleting = cluster.plan().steps.iter().any(|step| matches!(step, Step::Delete(_)));
        cluster.faults = if deleting { vec![] } else { vec![answer.clone()] };
        cluster.reconcile();
        let Wake::By { at, .. } = cluster.last.as_ref().unwrap().wake else { break };
        cluster.now = at;
    }
    assert_eq!(cluster.requests().last(), Some(&(second, "delete pod ns/a")));
}

/// Shows DR-10.
#[test]
fn lost_memory_repeats_requests_without_harm() {
    let mut cluster = Cluster::new([Pod::new("a").under("web"), Pod::new("b").ending_in(Some(20))])
        .budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    cluster.until(60);
    cluster.memory = Memory::default();
    assert_eq!(cluster.drain(), EVICTED);
    assert_eq!(cluster.requests().last(), Some(&(180, "delete pod ns/a")), "the time restarts and never ends early");
    assert_eq!(cluster.requests().iter().filter(|(_, what)| what.ends_with("/b")).count(), 1);
}
