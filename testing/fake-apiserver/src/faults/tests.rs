//! The promises of the fault rules.

use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now() + jiff::SignedDuration::from_secs(seconds)
}

fn request(verb: Verb) -> RequestInfo<'static> {
    RequestInfo {
        verb,
        resource: "machines",
        namespace: "shoot",
        name: "m-1",
        subresource: "",
        user_agent: "mcm/0.1 (linux)",
    }
}

fn outcome(faults: &Faults, request: &RequestInfo<'_>) -> Outcome {
    faults.decide(request, now()).outcome
}

#[test]
fn without_rules_nothing_goes_wrong() {
    let faults = Faults::default();
    assert!(Verb::ALL.iter().all(|verb| faults.decide(&request(*verb), now()) == Decision::default()));
    assert!(faults.fired().is_empty());
}

/// Shows SRV-14.
#[test]
fn a_rule_is_spent_after_its_times() {
    let faults = Faults::default();
    let rule = faults.on(Verb::Create).of("machines").times(2).lose_answer();
    let outcomes: Vec<_> = (0..3).map(|_| outcome(&faults, &request(Verb::Create))).collect();
    assert_eq!(outcomes, [Outcome::AnswerLost, Outcome::AnswerLost, Outcome::Normal]);
    assert_eq!(faults.times_fired(rule), 2);
}

#[test]
fn a_rule_lets_the_first_ones_pass() {
    let faults = Faults::default();
    faults.on(Verb::Patch).skipping(1).once().conflict();
    let outcomes: Vec<_> = (0..3).map(|_| outcome(&faults, &request(Verb::Patch))).collect();
    assert_eq!(outcomes, [Outcome::Normal, Outcome::Refused(Refusal::Conflict), Outcome::Normal]);
}

#[rstest]
#[case::other_verb(RequestInfo { verb: Verb::Update, ..request(Verb::Patch) })]
#[case::other_kind(RequestInfo { resource: "nodes", ..request(Verb::Patch) })]
#[case::other_namespace(RequestInfo { namespace: "default", ..request(Verb::Patch) })]
#[case::other_name(RequestInfo { name: "m-2", ..request(Verb::Patch) })]
#[case::other_subresource(RequestInfo { subresource: "status", ..request(Verb::Patch) })]
#[case::other_agent(RequestInfo { user_agent: "kubectl", ..request(Verb::Patch) })]
fn every_condition_must_hold(#[case] other: RequestInfo<'_>) {
    let faults = Faults::default();
    let rule =
        faults.on(Verb::Patch).of("machines").in_namespace("shoot").named("m-1").subresource("").by_agent("mcm/");
    rule.fail();
    assert_eq!(outcome(&faults, &other), Outcome::Normal);
    assert_eq!(outcome(&faults, &request(Verb::Patch)), Outcome::Refused(Refusal::InternalError));
}

#[test]
fn a_window_includes_its_start_and_not_its_end() {
    let faults = Faults::default();
    faults.on_any().from(later(10)).until(later(20)).disconnect();
    let at = |seconds| faults.decide(&request(Verb::Get), later(seconds)).outcome;
    assert_eq!(
        [at(9), at(10), at(19), at(20)],
        [Outcome::Normal, Outcome::Disconnected, Outcome::Disconnected, Outcome::Normal]
    );
}

#[test]
fn delays_add_up_and_the_oldest_rule_decides_the_rest() {
    let faults = Faults::default();
    faults.on_any().delay(Duration::from_secs(1));
    faults.on_any().throttle(Some(3));
    let second = faults.on_any().once().fail();
    faults.on_any().delay(Duration::from_secs(2));
    let decision = faults.decide(&request(Verb::List), now());
    assert_eq!(decision.delay, Duration::from_secs(3));
    assert_eq!(decision.outcome, Outcome::Refused(Refusal::TooManyRequests { retry_after: Some(3) }));
    assert_eq!(faults.times_fired(second), 0, "a rule that did not decide is not used up");
}

/// Shows SRV-13.
#[rstest]
#[case(Fault::Refuse(Refusal::Conflict), &Verb::WRITES)]
#[case(Fault::Refuse(Refusal::Gone), &[Verb::List, Verb::Watch])]
#[case(Fault::Stale(Staleness::Revisions(1)), &[Verb::Get, Verb::List])]
#[case(Fault::Watch { fault: WatchFault::Drop, after: After::Events(1) }, &[Verb::Watch])]
#[case(Fault::LoseAnswer, &[Verb::Get, Verb::List, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])]
fn a_fault_befalls_only_what_it_can_happen_to(#[case] fault: Fault, #[case] verbs: &[Verb]) {
    let faults = Faults::default();
    faults.on_any().deal(fault);
    let hit: Vec<_> =
        Verb::ALL.into_iter().filter(|verb| outcome(&faults, &request(*verb)) != Outcome::Normal).collect();
    assert_eq!(hit, verbs);
}

#[test]
fn the_log_says_who_got_what() {
    let faults = Faults::default();
    let rule = faults.on(Verb::Watch).of("machines").drop_watch(After::Events(3));
    let _ = faults.decide(&request(Verb::Watch), later(5));
    let fault = Fault::Watch { fault: WatchFault::Drop, after: After::Events(3) };
    let expected = Fired {
        at: later(5),
        rule,
        fault,
        verb: Verb::Watch,
        resource: "machines".into(),
        namespace: "shoot".into(),
        name: "m-1".into(),
        subresource: String::new(),
    };
    assert_eq!(faults.fired(), [expected]);
}

#[test]
fn the_log_forgets_the_oldest_when_it_is_full() {
    let faults = Faults::default();
    faults.on_any().delay(Duration::ZERO);
    for second in 0..=LOG_LENGTH {
        let _ = faults.decide(&request(Verb::Get), later(i64::try_from(second).unwrap()));
    }
    assert_eq!(faults.fired().len(), LOG_LENGTH);
    assert_eq!(faults.fired()[0].at, later(1));
}

#[test]
fn a_withdrawn_rule_is_over() {
    let faults = Faults::default();
    let (first, _second) = (faults.on_any().fail(), faults.on_any().disconnect());
    faults.withdraw(first);
    assert_eq!(outcome(&faults, &request(Verb::Get)), Outcome::Disconnected);
    faults.calm();
    assert_eq!(outcome(&faults, &request(Verb::Get)), Outcome::Normal);
}

/// Shows SRV-14.
#[test]
fn one_rule_more_does_not_change_what_the_others_do() {
    let course = |more: bool| {
        let faults = Faults::seeded(11);
        faults.on(Verb::Get).with_probability(0.5).fail();
        if more {
            faults.on(Verb::List).with_probability(0.5).fail();
        }
        (0..50).map(|_| outcome(&faults, &request(Verb::Get))).collect::<Vec<_>>()
    };
    assert_eq!(course(false), course(true));
}

#[test]
fn a_storm_without_intensity_is_a_calm_day() {
    let faults = Faults::storm(1, 0.0);
    assert!((0..1000).all(|_| faults.decide(&request(Verb::Patch), now()) == Decision::default()));
}

#[test]
fn a_full_storm_hits_hard_but_lets_most_requests_through() {
    let faults = Faults::storm(1, 1.0);
    let normal = (0..1000).filter(|_| outcome(&faults, &request(Verb::Patch)) == Outcome::Normal).count();
    assert!((600..950).contains(&normal), "{normal}");
}

proptest! {
    #[test]
    fn the_same_seed_brews_the_same_storm(seed: u64, verbs in prop::collection::vec(prop::sample::select(&Verb::ALL[..]), 1..200)) {
        let course = || {
            let faults = Faults::storm(seed, 0.7);
            verbs.iter().map(|verb| faults.decide(&request(*verb), now())).collect::<Vec<_>>()
        };
        prop_assert_eq!(course(), course());
    }

    #[test]
    fn a_storm_deals_only_what_can_befall_the_request(seed: u64) {
        let faults = Faults::storm(seed, 1.0);
        for verb in Verb::ALL.into_iter().cycle().take(200) {
            let _ = faults.decide(&request(verb), now());
        }
        prop_assert!(faults.fired().iter().all(|f| f.fault.can_befall(f.verb)));
    }
}
