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

/// Looks at the line to the target at each of these seconds, and says what was new.
fn follow_target(looks: &[(i64, Connection)]) -> (State, Vec<(i64, &'static str)>) {
    let (policy, mut state, mut told) = (SafetyPolicy::default(), State::default(), Vec::new());
    for (now, line) in looks {
        let judgement = state.judge(&probe(line.clone(), *now), &policy);
        match &judgement.news {
            News::None => {}
            News::Froze(frozen) => told.push((*now, frozen.cause.word())),
            News::Thawed(_) => told.push((*now, "thawed")),
        }
        state = judgement.state;
    }
    (state, told)
}

#[test]
fn silence_freezes_after_the_timeout_and_thaws_when_the_watch_is_heard() {
    let looks = [0, 6, 12, 18, 24, 29, 30].map(|now| (now, Connection::Unreachable));
    let (state, told) = follow_target(&looks);
    assert_eq!(told, [(30, "silence")]);
    assert_eq!(state.frozen().unwrap().disconnected_since, at(0), "it began before we were sure");
    let thawed = state.judge(&probe(Connection::Watching, 100), &SafetyPolicy::default());
    assert!(matches!(thawed.news, News::Thawed(_)));
    assert_eq!(thawed.state, State::default());
}

/// Shows MC-W26.
#[test]
fn the_timer_starts_over_when_the_server_answers() {
    let looks = [
        (0, Connection::Unreachable),
        (24, Connection::Unreachable),
        (25, answers(0)),
        (26, Connection::Unreachable),
        (50, Connection::Unreachable),
    ];
    let (state, told) = follow_target(&looks);
    assert_eq!(told, [], "one failed probe after a recovery does not freeze");
    let frozen = state.judge(&probe(Connection::Unreachable, 56), &SafetyPolicy::default());
    assert!(matches!(frozen.news, News::Froze(_)));
}

/// Shows MC-W27.
#[test]
fn a_server_that_answers_is_not_silent_whatever_it_answers() {
    for why in ["403 Forbidden", "429 Too Many Requests", "410 Gone", ""] {
        let answer = || Connection::Answering { broken_since: at(0), why: why.to_owned() };
        // An answer just before the silence would have lasted too long, again and again, until the refusal would be too long.
        let looks: Vec<_> =
            (0..300).map(|now| (now, if now % 30 == 29 { answer() } else { Connection::Unreachable })).collect();
        let (state, told) = follow_target(&looks);
        assert_eq!(told, [], "{why:?} is an answer");
        // Without one the same silence is too long.
        let silent = state.judge(&probe(Connection::Unreachable, 300), &SafetyPolicy::default()).state;
        let frozen = silent.judge(&probe(Connection::Unreachable, 330), &SafetyPolicy::default()).news;
        assert!(matches!(frozen, News::Froze(_)), "after {why:?}: {frozen:?}");
    }
}

/// Shows MC-W27.
#[test]
fn a_server_that_shows_us_nothing_for_minutes_cuts_us_off_all_the_same() {
    let (state, told) =
        follow_target(&[(0, answers(0)), (299, answers(0)), (300, answers(0)), (400, Connection::Watching)]);
    assert_eq!(told, [(300, "refusal"), (400, "thawed")]);
    assert_eq!(state, State::default());
}

#[test]
fn a_server_that_comes_back_must_be_heard_before_we_thaw() {
    let looks = [
        (0, Connection::Unreachable),
        (30, Connection::Unreachable),
        (60, answers(0)),
        (70, answers(0)),
        (75, Connection::Watching),
    ];
    let (_, told) = follow_target(&looks);
    assert_eq!(told, [(30, "silence"), (75, "thawed")]);
}

#[test]
fn the_server_of_machines_counts_as_much_as_that_of_nodes() {
    let policy = SafetyPolicy::default();
    let look = |now| Probe {
        control: Connection::Unreachable,
        target: Connection::Watching,
        clock_skew: None,
        recounted: None,
        now: at(now),
    };
    let state = State::default().judge(&look(0), &policy).state;
    let News::Froze(frozen) = state.judge(&look(31), &policy).news else { panic!("expected a freeze") };
    assert_eq!(frozen.cause.to_string(), "the API server of the control cluster does not answer");
}

#[rstest]
#[case(3, 4, false)] // a small cluster may lose three
#[case(4, 4, true)]
#[case(20, 100, false)]
#[case(21, 100, true)]
fn too_many_nodes_gone_at_once_freeze_us(#[case] gone: usize, #[case] of: usize, #[case] freezes: bool) {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    state.nodes_disappeared(gone, of, &policy, at(0));
    let judgement = state.judge(&probe(Connection::Watching, 0), &policy);
    assert_eq!(judgement.state.frozen().is_some(), freezes);
}

#[test]
fn nobody_decides_on_what_is_seen_from_the_first_doubt_until_it_is_settled() {
    let policy = SafetyPolicy::default();
    let mut state = State::default();
    assert!(state.sees());
    state.nodes_disappeared(10, 10, &policy, at(0));
    assert!(!state.sees() && state.frozen().is_none(), "doubt begins before anyone has judged it");
    let judged = state.judge(&probe(Connection::Watching, 0), &policy).state;
    assert!(!judged.sees() && judged.frozen().is_some());
    let settled = Probe { recounted: Some(at(30)), ..probe(Connection::Watching, 31) };
    assert!(judged.judge(&settled, &policy).state.sees());
    let (silent, _) = follow_target(&[(0, Connection::Unreachable), (30, Connection::Unreachable)]);
    assert!(!silent.sees(), "nor while a server is silent, though no Node has gone");
}

#[test]
fn a_count_one_freeze_timeout_later_ends_a_disappearance_and_no_earlier_one_does() {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    state.nodes_disappeared(10, 10, &policy, at(0));
    let look = |recounted: Option<i64>, now| Probe { recounted: recounted.map(at), ..probe(Connection::Watching, now) };
    let begun = state.judge(&look(None, 0), &policy);
    assert_eq!((begun.recount, begun.again), (Recount::NotDue, Duration::from_secs(30)));
    let early = begun.state.judge(&look(Some(29), 29), &policy);
    assert_eq!((early.news, early.recount), (News::None, Recount::NotDue));
    let due = early.state.judge(&look(Some(29), 30), &policy);
    assert_eq!((due.news, due.recount), (News::None, Recount::Due));
    let ended = due.state.judge(&look(Some(30), 31), &policy);
    assert!(matches!(ended.news, News::Thawed(_)));
    assert_eq!(ended.recount, Recount::NotDue);
}

#[test]
fn a_server_that_comes_back_empty_keeps_us_disconnected_since_it_went() {
    let policy = SafetyPolicy::default();
    let (mut state, _) = follow_target(&[(0, Connection::Unreachable), (30, Connection::Unreachable)]);
    state.nodes_disappeared(10, 10, &policy, at(100));
    let judgement = state.judge(&probe(Connection::Watching, 100), &policy);
    assert_eq!(judgement.news, News::None, "one freeze passes into another");
    let frozen = judgement.state.frozen().unwrap();
    assert_eq!((frozen.disconnected_since, frozen.cause.word()), (at(0), "disappearance"));
}

#[test]
fn nothing_is_asked_while_all_is_well_and_a_broken_line_is_asked_five_times_per_timeout() {
    let policy = SafetyPolicy::default();
    assert_eq!(State::default().judge(&probe(Connection::Watching, 0), &policy).again, policy.probe_every);
    assert_eq!(State::default().judge(&probe(Connection::Unreachable, 0), &policy).again, Duration::from_secs(6));
}

fn any_line() -> impl Strategy<Value = Connection> {
    prop_oneof![Just(Connection::Watching), Just(Connection::Unreachable), (0i64..1000).prop_map(answers)]
}

proptest! {
    /// Shows MC-W26.
    #[test]
    fn no_history_leaves_us_frozen_once_everything_is_heard_and_counted(
        history in prop::collection::vec((any_line(), any_line(), 0i64..60, prop::option::of(0usize..30)), 0..60),
    ) {
        let (policy, mut state, mut now) = (SafetyPolicy::default(), State::default(), 0);
        for (control, target, gap, gone) in history {
            now += gap;
            if let Some(gone) = gone {
                state.nodes_disappeared(gone, 20, &policy, at(now));
            }
            state = state.judge(&Probe { control, target, clock_skew: None, recounted: None, now: at(now) }, &policy).state;
        }
        let later = now + 30;
        let probe = Probe { control: Connection::Watching, target: Connection::Watching, clock_skew: None, recounted: Some(at(later)), now: at(later) };
        let judgement = state.judge(&probe, &policy);
        prop_assert_eq!(&judgement.state, &State::default());
        prop_assert_eq!(judgement.state.judge(&probe, &policy).news, News::None);
    }

    #[test]
    fn who_hears_both_servers_and_misses_no_nodes_is_never_frozen(gaps in prop::collection::vec(0i64..600, 0..40)) {
        let (policy, mut state, mut now) = (SafetyPolicy::default(), State::default(), 0);
        for gap in gaps {
            now += gap;
            let judgement = state.judge(&probe(Connection::Watching, now), &policy);
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
    state = state.judge(&probe(Connection::Watching, 7200), &policy).state;
    state.clock_stepped_back(at(0));
    assert_eq!(state.frozen().unwrap().disconnected_since, at(0));
    assert_eq!(state.judge(&probe(Connection::Watching, 29), &policy).recount, Recount::NotDue);
    assert_eq!(state.judge(&probe(Connection::Watching, 30), &policy).recount, Recount::Due);
    let recounted = Probe { recounted: Some(at(30)), ..probe(Connection::Watching, 31) };
    assert!(matches!(state.judge(&recounted, &policy).news, News::Thawed(_)));
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
    let begun = State::default().judge(&skewed(0, ahead), &policy);
    assert_eq!(!begun.state.sees(), freezes);
    if let News::Froze(frozen) = &begun.news {
        assert_eq!((frozen.cause.word(), frozen.disconnected_since), ("clock_skew", at(0)));
        assert!(begun.again < policy.probe_every, "a corrected clock is noticed soon");
        let ended = begun.state.judge(&skewed(10, 2), &policy);
        assert!(matches!(ended.news, News::Thawed(_)) && ended.state.sees());
    }
}

/// Shows MC-CLK1.
#[test]
fn clock_skew_noticed_between_two_looks_freezes_and_ends() {
    let (policy, mut state) = (SafetyPolicy::default(), State::default());
    assert!(state.clock_skewed(SignedDuration::from_mins(30)));
    assert!(!state.clock_skewed(SignedDuration::from_mins(30)), "one look is enough");
    let begun = state.judge(&probe(Connection::Watching, 1), &policy);
    let News::Froze(frozen) = &begun.news else { panic!("{begun:?}") };
    assert_eq!(
        frozen.cause.to_string(),
        "the clock of this process is 30m0s ahead of the API server's; correct the clock"
    );
    assert!(matches!(begun.state.judge(&probe(Connection::Watching, 8), &policy).news, News::Thawed(_)));
}
