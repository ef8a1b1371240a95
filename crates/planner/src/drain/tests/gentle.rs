//! Asking pods to leave.

use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::cluster::{Budget, Cluster, Pod, at, secs};

const GENTLE: Outcome = Outcome::Drained(Mode::Gentle);

#[test]
fn an_empty_node_is_drained_without_a_request() {
    let mut cluster = Cluster::new([]);
    assert_eq!(cluster.drain(), GENTLE);
    assert!(cluster.diary.is_empty());
}

/// Shows DR-1.
#[test]
fn pods_that_stay_anyway_are_nobody_s_business() {
    let daemon = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true }]);
    let mut cluster = Cluster::new([
        Pod::new("agent").with(json!({"metadata": {"ownerReferences": daemon}})),
        Pod::new("static").with(json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}})),
    ]);
    assert_eq!(cluster.drain(), GENTLE);
    assert!(cluster.diary.is_empty());
}

/// Shows DR-2.
#[test]
fn pods_without_volumes_go_all_at_once_and_take_as_long_as_the_slowest() {
    let mut cluster = Cluster::new((0..100).map(|i| Pod::new(format!("p{i}")).ending_in(Some(i % 20))));
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.elapsed(), 19);
    assert_eq!(cluster.requests().len(), 100, "one request for each");
    assert!(cluster.requests().iter().all(|(second, what)| *second == 0 && what.starts_with("evict")));
}

#[test]
fn a_pod_that_is_ending_already_is_waited_for_and_not_asked_again() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.pods[0].deleted_at = Some(cluster.now);
    cluster.pods[0].granted_grace = 30;
    cluster.pods[0].ends_at = Some(at(10));
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!((cluster.elapsed(), cluster.requests().len()), (10, 0));
}

/// Shows DR-Q11, MC-W62.
#[test]
fn a_pod_that_never_ends_fails_the_drain_until_it_is_forced() {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let mut cluster = Cluster::new([Pod::new("a").with(held).ending_in(None)]);
    cluster.until(59);
    assert_eq!((cluster.waiting(), cluster.failure()), (vec!["ns/a: ending".to_owned()], None));
    cluster.until(60);
    assert_eq!(cluster.waiting(), ["ns/a: has ended, but is held by finalizer example.com/hold"]);
    let text = "error when waiting for pod \"a\"/node terminating: context deadline exceeded (it is held by finalizer \
                example.com/hold)";
    assert_eq!(cluster.failure(), Some(text));
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Overdue)));
    assert_eq!(cluster.elapsed(), 7200);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (7200, "delete pod ns/a")]);
}

/// Shows DR-Q5, MC-W64.
#[test]
fn a_pod_that_appears_in_mid_drain_is_drained_too() {
    let mut cluster = Cluster::new([Pod::new("a").ending_in(Some(20))]);
    cluster.until(10);
    cluster.pods.push(Pod::new("late"));
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (10, "evict pod ns/late")]);
}

/// Shows DR-Q6.
#[test]
fn another_pod_of_the_same_name_is_another_pod() {
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
fn a_pod_said_to_be_gone_is_believed_only_when_it_is_out_of_sight() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Gone];
    cluster.until(59);
    assert_eq!(cluster.waiting(), ["ns/a: ending"]);
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (60, "evict pod ns/a")]);
}

/// Shows DR-Q8.
#[test]
fn a_pod_that_cannot_be_read_is_not_taken_for_one_that_is_gone() {
    let mut cluster = Cluster::new([]);
    cluster.unreadable = vec!["ns/odd".into()];
    cluster.until(5);
    assert_eq!(cluster.waiting(), ["ns/odd: exists but cannot be read"]);
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Overdue)));
}

/// Shows DR-Q8.
#[test]
fn an_answer_that_never_comes_is_asked_for_again() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Accepted]; // said, but not done
    cluster.lost = 1;
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (60, "evict pod ns/a")]);
}

/// Shows DR-7.
#[test]
fn a_budget_that_opens_lets_as_many_go_as_it_allows_at_once() {
    let mut cluster =
        Cluster::new((0..4).map(|i| Pod::new(format!("p{i}")).under("web"))).budget("web", Budget::new(4, 4, Some(10)));
    cluster.budgets.get_mut("web").unwrap().healthy = 3; // somebody else's pod is down: not misconfigured, only spent
    cluster.until(1);
    assert_eq!(cluster.requests().len(), 4, "each is tried once");
    assert_eq!(cluster.failure(), None);
    assert_eq!(cluster.waiting()[0], "ns/p0: pod disruption budget ns/web needs 4 healthy pods and has 3");
    cluster.budgets.get_mut("web").unwrap().set_needed(1);
    cluster.reconcile();
    assert_eq!(cluster.requests().len(), 6, "two are allowed, two are asked");
    assert_eq!(cluster.pods.len(), 2);
}

/// Shows DR-7.
#[test]
fn a_budget_that_has_not_changed_is_not_asked_in_a_loop() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 1, None));
    let refused = Answer::Refused(Refusal::Budget { retry_after: None });
    cluster.faults = vec![refused; 1000]; // whatever its status says, the server refuses
    cluster.until(120);
    assert!((7..=12).contains(&cluster.requests().len()), "{:?}", cluster.requests());
}

/// Shows DR-8.
#[test]
fn a_server_that_wants_to_be_left_alone_is() {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![Answer::Refused(Refusal::Budget { retry_after: Some(secs(17)) })];
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/a"), (17, "evict pod ns/a")]);
}

/// Shows DR-6.
#[test]
fn a_budget_that_can_never_allow_fails_the_drain_at_once_with_the_text_that_others_match() {
    let mut cluster =
        Cluster::new([Pod::new("a").under("web"), Pod::new("b")]).budget("web", Budget::new(3, 3, Some(1)));
    cluster.until(1);
    let text = "error while evicting pod \"a\": pod disruption budget ns/web is misconfigured and requires zero voluntary evictions";
    assert_eq!(cluster.failure(), Some(text));
    cluster.budgets.get_mut("web").unwrap().set_needed(2);
    assert_eq!(cluster.drain(), GENTLE, "and a budget that was mended lets the pod go at once");
    assert_eq!(cluster.elapsed(), 1);
}

/// Shows DR-11.
#[test]
fn several_failures_are_joined_in_brackets_and_each_is_told_once() {
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
fn refusals_that_last_as_long_as_the_reference_would_retry_end_in_a_deletion() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    assert_eq!(cluster.drain(), GENTLE);
    let requests = cluster.requests();
    assert_eq!(requests.last(), Some(&(120, "delete pod ns/a")), "six times twenty seconds after the first refusal");
    assert!(requests[..requests.len() - 1].iter().all(|(_, what)| what.starts_with("evict")));
}

/// Shows DR-6.
#[test]
fn a_budget_that_can_never_allow_is_not_overruled_before_the_deadline() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Overdue)));
    assert_eq!(cluster.elapsed(), 7200);
    assert!(cluster.requests().len() < 60, "and is asked about ever more rarely: {}", cluster.requests().len());
}

/// Shows DR-Q10.
#[rstest]
#[case(json!({"maxEvictRetries": 0}))]
#[case(json!({"drainTimeout": "10s"}))]
fn without_retries_pods_are_deleted_at_once_and_nothing_hangs(#[case] spec: serde_json::Value) {
    let mut cluster = Cluster::new([Pod::new("a"), Pod::new("b").claiming(["data"])]);
    cluster.machine["spec"] = spec;
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "delete pod ns/a"), (0, "delete pod ns/b")]);
}

/// Shows DR-13.
#[test]
fn who_never_forces_waits_without_limit() {
    let mut cluster = Cluster::new([Pod::new("a").under("web")]).budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.limits.force = Force::OnlyWhenAsked;
    cluster.machine["spec"] = json!({"maxEvictRetries": 0, "drainTimeout": "1s"});
    cluster.until(20_000);
    assert!(cluster.requests().iter().all(|(_, what)| what.starts_with("evict")));
    cluster.machine["metadata"]["labels"] = json!({"force-deletion": "true"});
    assert_eq!(cluster.drain(), Outcome::Drained(Mode::Forced(Cause::Asked)));
}

/// Shows DR-13.
#[test]
fn pods_to_be_left_alone_are_and_those_that_go_last_do() {
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
    assert_eq!(cluster.waiting(), ["ns/web: ending", "ns/log: goes when all others have gone"]);
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(cluster.requests(), [(0, "evict pod ns/web"), (9, "evict pod ns/log")]);
}

/// Shows DR-8.
#[rstest]
#[case::ending_namespace(Answer::Refused(Refusal::NamespaceEnding), None)]
#[case::several_budgets(Answer::Refused(Refusal::SeveralBudgets), None)]
#[case::busy(Answer::lost("down".into()), None)]
#[case::forbidden(
    Answer::read(&Reply { code: 403, message: "no", about: "pods", causes: &[], retry_after: None }),
    Some("error when evicting pod \"a\": no scheduled on node node")
)]
fn what_does_not_work_is_tried_again_and_told_where_it_matters(#[case] answer: Answer, #[case] failure: Option<&str>) {
    let mut cluster = Cluster::new([Pod::new("a")]);
    cluster.faults = vec![answer];
    cluster.until(1);
    assert_eq!(cluster.failure(), failure);
    assert_eq!(cluster.drain(), GENTLE);
    assert!((4..=5).contains(&cluster.elapsed()), "after a short pause");
}

/// Shows DR-5.
#[rstest]
#[case::refusals_count(Answer::Refused(Refusal::NamespaceEnding), 60)]
#[case::several_budgets_too(Answer::Refused(Refusal::SeveralBudgets), 60)]
#[case::failures_do_not(Answer::lost("down".into()), 7200)]
fn only_refusals_lead_to_a_deletion_before_the_deadline(#[case] answer: Answer, #[case] second: u64) {
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
fn losing_the_memory_asks_again_and_does_no_harm() {
    let mut cluster = Cluster::new([Pod::new("a").under("web"), Pod::new("b").ending_in(Some(20))])
        .budget("web", Budget::new(2, 2, None));
    cluster.budgets.get_mut("web").unwrap().healthy = 1;
    cluster.machine["spec"] = json!({"maxEvictRetries": 6});
    cluster.until(60);
    cluster.memory = Memory::default();
    assert_eq!(cluster.drain(), GENTLE);
    assert_eq!(
        cluster.requests().last(),
        Some(&(180, "delete pod ns/a")),
        "its patience begins again, never ends early"
    );
    assert_eq!(cluster.requests().iter().filter(|(_, what)| what.ends_with("/b")).count(), 1);
}
