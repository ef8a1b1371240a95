use super::*;
use proptest::prelude::*;
use rstest::rstest;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn answers(broken_since: i64) -> Connection {
    Connection::Answering { broken_since: at(broken_since), why: "403".into() }
}

fn probe(target: Connection, now: i64) -> Probe {
    Probe { control: Connection::Watching, target, clock_skew: None, recounted: None, now: at(now) }
}

/// Checks the connection to the target cluster at each of these seconds, and returns the changes.
fn follow_target(looks: &[(i64, Connection)]) -> (State, Vec<(i64, &'static str)>) {
    let (policy, mut state, mut changes) = (SafetyPolicy::default(), State::default(), Vec::new());
    for (now, line) in looks {
        let judgement = state.evaluate(&probe(line.clone(), *now), &policy);
        match &judgement.transition {
            Transition::None => {}
            Transition::Froze(frozen) => changes.push((*now, frozen.cause.label())),
            Transition::Unfroze(_) => changes.push((*now, "thawed")),
        }
        state = judgement.state;
    }
    (state, changes)
}

#[test]
fn silence_freezes_until_the_watch_is_established() {
    let looks = [0, 6, 12, 18, 24, 29, 30].map(|now| (now, Connection::Unreachable));
    let (state, changes) = follow_target(&looks);
    assert_eq!(changes, [(30, "silence")]);
    assert_eq!(state.frozen().unwrap().disconnected_since, at(0), "the freeze begins with the first failure");
    let thawed = state.evaluate(&probe(Connection::Watching, 100), &SafetyPolicy::default());
    assert!(matches!(thawed.transition, Transition::Unfroze(_)));
    assert_eq!(thawed.state, State::default());
}

/// Shows MC-W26.
#[test]
fn timer_restarts_when_the_server_responds() {
    let looks = [
        (0, Connection::Unreachable),
        (24, Connection::Unreachable),
        (25, answers(0)),
        (26, Connection::Unreachable),
        (50, Connection::Unreachable),
    ];
    let (state, changes) = follow_target(&looks);
    assert_eq!(changes, [], "one failed probe after a recovery does not freeze");
    let frozen = state.evaluate(&probe(Connection::Unreachable, 56), &SafetyPolicy::default());
    assert!(matches!(frozen.transition, Transition::Froze(_)));
}

/// Shows MC-W27.
#[test]
fn any_response_ends_the_silence() {
    for why in ["403 Forbidden", "429 Too Many Requests", "410 Gone", ""] {
        let answer = || Connection::Answering { broken_since: at(0), why: why.to_owned() };
        // A response arrives each time just before the silence would last too long, until the refusal lasts too long.
        let looks: Vec<_> =
            (0..300).map(|now| (now, if now % 30 == 29 { answer() } else { Connection::Unreachable })).collect();
        let (state, changes) = follow_target(&looks);
        assert_eq!(changes, [], "{why:?} is a response");
        // Without a response the same silence is too long.
        let silent = state.evaluate(&probe(Connection::Unreachable, 300), &SafetyPolicy::default()).state;
        let frozen = silent.evaluate(&probe(Connection::Unreachable, 330), &SafetyPolicy::default()).transition;
        assert!(matches!(frozen, Transition::Froze(_)), "after {why:?}: {frozen:?}");
    }
}

/// Shows MC-W27.
#[test]
fn refused_watch_freezes_after_minutes() {
    let (state, changes) =
        follow_target(&[(0, answers(0)), (299, answers(0)), (300, answers(0)), (400, Connection::Watching)]);
    assert_eq!(changes, [(300, "refusal"), (400, "thawed")]);
    assert_eq!(state, State::default());
}

#[test]
fn freeze_ends_only_when_the_watch_is_established() {
    let looks = [
        (0, Connection::Unreachable),
        (30, Connection::Unreachable),
        (60, answers(0)),
        (70, answers(0)),
        (75, Connection::Watching),
    ];
    let (_, changes) = follow_target(&looks);
    assert_eq!(changes, [(30, "silence"), (75, "thawed")]);
}

#[test]
fn silence_of_either_server_freezes() {
    let policy = SafetyPolicy::default();
    let look = |now| Probe {
        control: Connection::Unreachable,
        target: Connection::Watching,
        clock_skew: None,
        recounted: None,
        now: at(now),
    };
    let state = State::default().evaluate(&look(0), &policy).state;
    let Transition::Froze(frozen) = state.evaluate(&look(31), &policy).transition else { panic!("expected a freeze") };
    assert_eq!(frozen.cause.to_string(), "the API server of the control cluster does not respond");
}

#[rstest]
#[case(3, 4, false)] // a small cluster may lose three
#[case(4, 4, true)]
#[case(20, 100, false)]
#[case(21, 100, true)]
fn disappearance_of_too_many_nodes_freezes(#[case] gone: usize, #[case] of: usize, #[case] freezes: bool) {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    state.nodes_disappeared(gone, of, &policy, at(0));
    let judgement = state.evaluate(&probe(Connection::Watching, 0), &policy);
    assert_eq!(judgement.state.frozen().is_some(), freezes);
}

#[test]
fn state_is_unreliable_from_the_disappearance_on() {
    let policy = SafetyPolicy::default();
    let mut state = State::default();
    assert!(state.is_reliable());
    state.nodes_disappeared(10, 10, &policy, at(0));
    assert!(!state.is_reliable() && state.frozen().is_none(), "unreliable before the next check");
    let judged = state.evaluate(&probe(Connection::Watching, 0), &policy).state;
    assert!(!judged.is_reliable() && judged.frozen().is_some());
    let settled = Probe { recounted: Some(at(30)), ..probe(Connection::Watching, 31) };
    assert!(judged.evaluate(&settled, &policy).state.is_reliable());
    let (silent, _) = follow_target(&[(0, Connection::Unreachable), (30, Connection::Unreachable)]);
    assert!(!silent.is_reliable(), "nor while a server is silent, without a missing Node");
}

#[test]
fn disappearance_ends_with_a_later_quorum_list_only() {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    state.nodes_disappeared(10, 10, &policy, at(0));
    let look = |recounted: Option<i64>, now| Probe { recounted: recounted.map(at), ..probe(Connection::Watching, now) };
    let begun = state.evaluate(&look(None, 0), &policy);
    assert_eq!((begun.recount, begun.again), (Recount::NotDue, Duration::from_secs(30)));
    let early = begun.state.evaluate(&look(Some(29), 29), &policy);
    assert_eq!((early.transition, early.recount), (Transition::None, Recount::NotDue));
    let due = early.state.evaluate(&look(Some(29), 30), &policy);
    assert_eq!((due.transition, due.recount), (Transition::None, Recount::Due));
    let ended = due.state.evaluate(&look(Some(30), 31), &policy);
    assert!(matches!(ended.transition, Transition::Unfroze(_)));
    assert_eq!(ended.recount, Recount::NotDue);
}

#[test]
fn freeze_lasts_since_its_first_cause() {
    let policy = SafetyPolicy::default();
    let (mut state, _) = follow_target(&[(0, Connection::Unreachable), (30, Connection::Unreachable)]);
    state.nodes_disappeared(10, 10, &policy, at(100));
    let judgement = state.evaluate(&probe(Connection::Watching, 100), &policy);
    assert_eq!(judgement.transition, Transition::None, "the freeze continues with another cause");
    let frozen = judgement.state.frozen().unwrap();
    assert_eq!((frozen.disconnected_since, frozen.cause.label()), (at(0), "disappearance"));
}

#[test]
fn interrupted_connection_is_probed_five_times_per_timeout() {
    let policy = SafetyPolicy::default();
    assert_eq!(State::default().evaluate(&probe(Connection::Watching, 0), &policy).again, policy.probe_interval);
    assert_eq!(State::default().evaluate(&probe(Connection::Unreachable, 0), &policy).again, Duration::from_secs(6));
}

fn any_line() -> impl Strategy<Value = Connection> {
    prop_oneof![Just(Connection::Watching), Just(Connection::Unreachable), (0i64..1000).prop_map(answers)]
}

proptest! {
    /// Shows MC-W26.
    #[test]
    fn freeze_always_ends_when_all_servers_are_watched(
        history in prop::collection::vec((any_line(), any_line(), 0i64..60, prop::option::of(0usize..30)), 0..60),
    ) {
        let (policy, mut state, mut now) = (SafetyPolicy::default(), State::default(), 0);
        for (control, target, gap, gone) in history {
            now += gap;
            if let Some(gone) = gone {
                state.nodes_disappeared(gone, 20, &policy, at(now));
            }
            state = state.evaluate(&Probe { control, target, clock_skew: None, recounted: None, now: at(now) }, &policy).state;
        }
        let later = now + 30;
        let probe = Probe { control: Connection::Watching, target: Connection::Watching, clock_skew: None, recounted: Some(at(later)), now: at(later) };
        let judgement = state.evaluate(&probe, &policy);
        prop_assert_eq!(&judgement.state, &State::default());
        prop_assert_eq!(judgement.state.evaluate(&probe, &policy).transition, Transition::None);
    }

    #[test]
    fn healthy_connections_never_freeze(gaps in prop::collection::vec(0i64..600, 0..40)) {
        let (policy, mut state, mut now) = (SafetyPolicy::default(), State::default(), 0);
        for gap in gaps {
            now += gap;
            let judgement = state.evaluate(&probe(Connection::Watching, now), &policy);
            prop_assert!(judgement.state.frozen().is_none());
            prop_assert!(!judgement.again.is_zero());
            state = judgement.state;
        }
    }
}

/// Shows LIM-25.
#[test]
fn disappearance_is_recounted_when_the_clock_steps_backward() {
    let policy = SafetyPolicy::default();
    let mut state = State::default();
    state.nodes_disappeared(10, 10, &policy, at(7200));
    state = state.evaluate(&probe(Connection::Watching, 7200), &policy).state;
    state.clock_stepped_back(at(0));
    assert_eq!(state.frozen().unwrap().disconnected_since, at(0));
    assert_eq!(state.evaluate(&probe(Connection::Watching, 29), &policy).recount, Recount::NotDue);
    assert_eq!(state.evaluate(&probe(Connection::Watching, 30), &policy).recount, Recount::Due);
    let recounted = Probe { recounted: Some(at(30)), ..probe(Connection::Watching, 31) };
    assert!(matches!(state.evaluate(&recounted, &policy).transition, Transition::Unfroze(_)));
}

/// Shows MC-CLK1.
#[rstest]
#[case::below(299, false)]
#[case::at_the_limit(300, false)]
#[case::ahead(301, true)]
#[case::behind(-301, true)]
fn clock_skew_above_the_limit_freezes_until_it_is_corrected(#[case] ahead: i64, #[case] freezes: bool) {
    let policy = SafetyPolicy::default();
    let skewed =
        |now, skew| Probe { clock_skew: Some(SignedDuration::from_secs(skew)), ..probe(Connection::Watching, now) };
    let begun = State::default().evaluate(&skewed(0, ahead), &policy);
    assert_eq!(!begun.state.is_reliable(), freezes);
    if let Transition::Froze(frozen) = &begun.transition {
        assert_eq!((frozen.cause.label(), frozen.disconnected_since), ("clock_skew", at(0)));
        assert!(begun.again < policy.probe_interval, "a corrected clock is noticed soon");
        let ended = begun.state.evaluate(&skewed(10, 2), &policy);
        assert!(matches!(ended.transition, Transition::Unfroze(_)) && ended.state.is_reliable());
    }
}

/// Shows MC-CLK1.
#[test]
fn clock_skew_noticed_between_two_checks_freezes_and_ends() {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    assert!(state.clock_skewed(SignedDuration::from_mins(30)));
    assert!(!state.clock_skewed(SignedDuration::from_mins(30)), "one check is sufficient");
    let begun = state.evaluate(&probe(Connection::Watching, 1), &policy);
    let Transition::Froze(frozen) = &begun.transition else { panic!("{begun:?}") };
    assert_eq!(
        frozen.cause.to_string(),
        "the clock of this process is 30m0s ahead of the API server's; correct the clock"
    );
    assert!(matches!(
        begun.state.evaluate(&probe(Connection::Watching, 8), &policy).transition,
        Transition::Unfroze(_)
    ));
}
