use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_mins(10);

fn gate(places: usize) -> Gate {
    Gate::new(places, Policy::default())
}

fn visit(pool: &str, class: &str, claim: Claim) -> Visit {
    Visit {
        credential: "keys".into(),
        class: class.into(),
        subject: String::new(),
        pool: pool.into(),
        priority: CallPriority::Making,
        claim,
    }
}

fn create(pool: &str, class: &str) -> Visit {
    visit(pool, class, Claim::Takes)
}

fn delete(pool: &str) -> Visit {
    Visit { priority: CallPriority::Ending, ..visit(pool, "c", Claim::None) }
}

fn exhausted() -> Verdict {
    Verdict::of_error(Code::ResourceExhausted, Claim::Takes, "full")
}

fn let_in(gate: &mut Gate, visit: Visit, now: Moment) -> VisitId {
    match gate.arrive(visit, now) {
        Arrival::Waits(id) => id,
        Arrival::TurnedAway => panic!("expected to be let into the line"),
    }
}

/// The pools of those who are out, in the order in which they left.
fn pools(gate: &Gate, admitted: &[VisitId]) -> Vec<String> {
    admitted.iter().map(|id| gate.visits[id].0.pool.clone()).collect()
}

#[test]
fn every_deployment_has_its_turn_however_many_wait_in_another() {
    let mut gate = gate(1);
    for _ in 0..1000 {
        let_in(&mut gate, create("crowd", "c"), SECOND);
    }
    let small = let_in(&mut gate, create("small", "c"), SECOND);
    let first = gate.admit(SECOND);
    assert_eq!(pools(&gate, &first), ["crowd"]);
    gate.leave(first[0], &Verdict::Answered, SECOND, 0.0);
    assert_eq!(gate.admit(SECOND), [small]);
}

#[test]
fn a_deployment_whose_calls_hang_leaves_places_for_others() {
    let mut gate = gate(50);
    for _ in 0..1000 {
        let_in(&mut gate, create("hangs", "c"), SECOND);
    }
    let hanging = gate.admit(SECOND).len();
    assert!((40..50).contains(&hanging), "{hanging}");
    let_in(&mut gate, delete("hangs"), SECOND);
    assert_eq!(gate.admit(SECOND).len(), 1, "its own deletions find one as well");
    for newcomer in ["a", "b"] {
        let_in(&mut gate, create(newcomer, "c"), SECOND);
        assert_eq!(gate.admit(SECOND).len(), 1, "{newcomer} finds a place");
    }
}

#[test]
fn deletions_and_creations_of_a_deployment_take_turns() {
    let mut gate = gate(1);
    for _ in 0..4 {
        let_in(&mut gate, create("p", "c"), SECOND);
        let_in(&mut gate, delete("p"), SECOND);
    }
    let mut order = Vec::new();
    while let Some(&id) = gate.admit(SECOND).first() {
        order.push(gate.visits[&id].0.priority);
        gate.leave(id, &Verdict::Answered, SECOND, 0.0);
    }
    assert_eq!(order, [CallPriority::Ending, CallPriority::Making].repeat(4));
}

#[test]
fn credentials_do_not_share_places() {
    let mut gate = gate(1);
    let_in(&mut gate, create("p", "c"), SECOND);
    let_in(&mut gate, Visit { credential: "others".into(), ..create("p", "c") }, SECOND);
    assert_eq!(gate.admit(SECOND).len(), 2);
}

#[test]
fn who_is_given_up_in_the_line_leaves_no_gap() {
    let mut gate = gate(1);
    let gone = let_in(&mut gate, create("p", "c"), SECOND);
    let next = let_in(&mut gate, create("p", "c"), SECOND);
    gate.leave(gone, &Verdict::Nothing, SECOND, 0.0);
    assert_eq!(gate.admit(SECOND), [next]);
    assert_eq!(gate.traffic()["keys"], Traffic { out: 1, waiting: 0, paused: false });
}

#[test]
fn an_exhausted_class_is_held_back_and_everything_else_goes_on() {
    let mut gate = gate(2);
    let first = let_in(&mut gate, create("p", "full"), SECOND);
    let second = let_in(&mut gate, create("p", "full"), SECOND);
    gate.admit(SECOND);
    let waiting = let_in(&mut gate, create("p", "full"), SECOND);
    let aftermath = gate.leave(first, &exhausted(), SECOND, 0.0);
    assert_eq!(aftermath.turned_away, [waiting], "who would only be refused does not even ask");
    gate.leave(waiting, &Verdict::Nothing, SECOND, 0.0);
    gate.leave(second, &exhausted(), 2 * SECOND, 0.0);

    assert_eq!(
        gate.room("full", 2 * SECOND).unwrap().1,
        RETRY.saturating_sub(SECOND),
        "the wait began with the first refusal"
    );
    assert_eq!(gate.arrive(create("p", "full"), 2 * SECOND), Arrival::TurnedAway);
    let_in(&mut gate, visit("p", "full", Claim::Precedes), 2 * SECOND);
    let_in(&mut gate, Visit { class: "full".into(), ..delete("p") }, 2 * SECOND);
    assert_eq!(gate.admit(2 * SECOND).len(), 2, "status and deletion");
    assert!(gate.room("other", 2 * SECOND).is_none());
}

#[test]
fn after_the_wait_one_tries_and_success_lets_twice_as_many() {
    let mut gate = gate(8);
    let refused = let_in(&mut gate, create("p", "c"), SECOND);
    gate.admit(SECOND);
    gate.leave(refused, &exhausted(), SECOND, 0.0);
    assert_eq!(gate.next_change(), Some(SECOND + RETRY));
    assert!(gate.classes_due(RETRY).is_empty());
    let now = SECOND + RETRY;
    assert_eq!(gate.classes_due(now), ["c"]);
    assert!(gate.classes_due(now).is_empty(), "told once");

    let probe = let_in(&mut gate, create("p", "c"), now);
    assert_eq!(gate.arrive(create("p", "c"), now), Arrival::TurnedAway, "one at a time");
    gate.admit(now);
    assert_eq!(gate.leave(probe, &Verdict::Made, now, 0.0).roomier.as_deref(), Some("c"));
    let two = [let_in(&mut gate, create("p", "c"), now), let_in(&mut gate, create("p", "c"), now)];
    assert_eq!(gate.arrive(create("p", "c"), now), Arrival::TurnedAway);
    gate.admit(now);
    gate.leave(two[0], &exhausted(), now, 0.0);
    assert_eq!(gate.room("c", now).unwrap().1, RETRY, "full again");
    gate.leave(two[1], &Verdict::Made, now, 0.0);
    assert!(gate.room("c", now).is_some(), "the wait stays");

    let now = now + RETRY;
    for _ in 0..3 {
        let probe = let_in(&mut gate, create("p", "c"), now);
        gate.admit(now);
        gate.leave(probe, &Verdict::Made, now, 0.0);
    }
    for _ in 0..100 {
        let_in(&mut gate, create("p", "c"), now);
    }
    assert_eq!(gate.classes_held_back(now).count(), 0);
}

#[test]
fn a_question_before_the_try_takes_its_turn_so_that_not_everybody_asks() {
    let mut gate = gate(8);
    let refused = let_in(&mut gate, create("p", "c"), SECOND);
    gate.admit(SECOND);
    gate.leave(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    let status = let_in(&mut gate, visit("p", "c", Claim::Precedes), now);
    gate.admit(now);
    assert!(gate.room("c", now).is_some());
    gate.leave(status, &Verdict::Answered, now, 0.0);
    assert!(gate.room("c", now).is_none(), "an answer to a question says nothing about room");
}

#[test]
fn a_try_that_takes_longer_than_a_wait_does_not_hold_up_its_class() {
    let mut gate = gate(8);
    let refused = let_in(&mut gate, create("p", "c"), SECOND);
    gate.admit(SECOND);
    gate.leave(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    let_in(&mut gate, create("p", "c"), now);
    assert!(gate.room("c", now + Duration::from_secs(599)).is_some());
    assert!(gate.room("c", now + RETRY).is_none());
}

/// Lets calls about this many machines fail at once.
fn throttle(gate: &mut Gate, machines: usize, now: Moment) {
    for n in 0..machines {
        let_in(gate, Visit { subject: format!("m-{n}"), ..create("p", "c") }, now);
    }
    for id in gate.admit(now) {
        gate.leave(id, &Verdict::Throttled, now, 0.0);
    }
}

#[test]
fn one_machine_that_is_always_refused_does_not_pause_the_others() {
    let mut gate = gate(10);
    for _ in 0..20 {
        throttle(&mut gate, 1, SECOND);
    }
    assert!(!gate.traffic()["keys"].paused, "the same one again and again is no proof");
    for _ in 0..20 {
        throttle(&mut gate, 2, SECOND);
        let ok = let_in(&mut gate, create("p", "c"), SECOND);
        assert_eq!(gate.admit(SECOND), [ok]);
        gate.leave(ok, &Verdict::Answered, SECOND, 0.0);
    }
}

#[test]
fn a_throttling_cloud_is_left_alone_then_one_call_tries_for_all() {
    let mut gate = gate(10);
    throttle(&mut gate, 5, SECOND);
    let (a, b) = (let_in(&mut gate, delete("q"), SECOND), let_in(&mut gate, create("r", "c"), SECOND));
    assert!(gate.admit(SECOND).is_empty());
    assert!(gate.traffic()["keys"].paused);
    assert_eq!(gate.next_change(), Some(2 * SECOND));
    assert_eq!(gate.admit(2 * SECOND), [a], "one tries");
    gate.leave(a, &Verdict::Throttled, 2 * SECOND, 0.0);
    assert_eq!(gate.next_change(), Some(4 * SECOND), "twice as long");
    assert!(gate.admit(3 * SECOND).is_empty());
    assert_eq!(gate.admit(4 * SECOND), [b]);
    let c = let_in(&mut gate, delete("p"), 4 * SECOND);
    assert!(gate.admit(4 * SECOND).is_empty(), "nobody leaves beside it");
    gate.leave(b, &Verdict::Answered, 5 * SECOND, 0.0);
    assert_eq!(gate.admit(5 * SECOND), [c]);
    gate.leave(c, &Verdict::Answered, 5 * SECOND, 0.0);
    assert!(gate.traffic().is_empty());
}

#[test]
fn a_try_that_is_not_refused_at_once_has_been_let_in() {
    let mut gate = gate(10);
    throttle(&mut gate, 3, SECOND);
    let slow = let_in(&mut gate, create("q", "c"), SECOND);
    let next = let_in(&mut gate, create("r", "c"), SECOND);
    assert_eq!(gate.admit(2 * SECOND), [slow]);
    assert_eq!(gate.next_change(), Some(12 * SECOND));
    assert_eq!(gate.admit(12 * SECOND), [next]);
}

#[test]
fn a_pause_grows_no_longer_than_its_bound() {
    let mut gate = gate(1);
    let mut now = SECOND;
    for n in 0..3 {
        let id = let_in(&mut gate, Visit { subject: format!("m-{n}"), ..create("p", "c") }, now);
        gate.admit(now);
        gate.leave(id, &Verdict::Throttled, now, 0.0);
    }
    for _ in 0..40 {
        let next = gate.next_change().expect("it is paused");
        assert!(next.saturating_sub(now) <= Policy::default().throttle_longest_pause);
        now = next;
        throttle(&mut gate, 1, now);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Arrive { pool: u8, class: u8, ending: bool },
    Admit,
    Leave { which: usize, verdict: u8 },
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0u8..4, 0u8..3, any::<bool>()).prop_map(|(pool, class, ending)| Act::Arrive { pool, class, ending }),
        3 => Just(Act::Admit),
        3 => (any::<usize>(), 0u8..5).prop_map(|(which, verdict)| Act::Leave { which, verdict }),
        1 => (1u64..700).prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 0..200)
}

proptest! {
    #[test]
    fn places_are_never_overspent_and_nobody_waits_for_ever(places in 1usize..6, acts in acts()) {
        let mut gate = gate(places);
        let mut now = SECOND;
        for act in acts {
            match act {
                Act::Arrive { pool, class, ending } => {
                    let (pool, class) = (format!("p{pool}"), format!("c{class}"));
                    gate.arrive(if ending { delete(&pool) } else { create(&pool, &class) }, now);
                }
                Act::Admit => {
                    gate.admit(now);
                }
                Act::Leave { which, verdict } => {
                    let out: Vec<_> = gate.visits.iter().filter(|(_, (_, s))| *s == State::Out).map(|(id, _)| *id).collect();
                    if let Some(id) = out.get(which % out.len().max(1)) {
                        let verdict = [Verdict::Made, Verdict::Answered, Verdict::Throttled, exhausted(), Verdict::Nothing]
                            [usize::from(verdict)].clone();
                        for turned in gate.leave(*id, &verdict, now, 0.5).turned_away {
                            gate.leave(turned, &Verdict::Nothing, now, 0.5);
                        }
                    }
                }
                Act::Wait(seconds) => now += Duration::from_secs(seconds),
            }
            let out = gate.visits.values().filter(|(_, state)| *state == State::Out).count();
            prop_assert!(out <= places);
        }
        // With a cloud that answers, all are served: each round a call ends or time brings the next change.
        for _ in 0..2000 {
            gate.classes_due(now);
            gate.admit(now);
            let out = gate.visits.iter().find(|(_, (_, s))| *s == State::Out).map(|(id, _)| *id);
            match out {
                Some(id) => {
                    gate.leave(id, &Verdict::Answered, now, 0.5);
                }
                None => match gate.next_change() {
                    Some(next) if !gate.visits.is_empty() && next > now => now = next,
                    _ => break,
                },
            }
        }
        prop_assert!(gate.visits.is_empty(), "{:?}", gate.visits);
    }
}
