use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_mins(10);

fn limiter(places: usize) -> CallLimiter {
    CallLimiter::new(places, Policy::default())
}

fn request(pool: &str, class: &str, capacity_use: CapacityUse) -> CallRequest {
    CallRequest {
        credential: "keys".into(),
        class: class.into(),
        subject: String::new(),
        pool: pool.into(),
        priority: CallPriority::Making,
        capacity_use,
    }
}

fn create(pool: &str, class: &str) -> CallRequest {
    request(pool, class, CapacityUse::Takes)
}

fn delete(pool: &str) -> CallRequest {
    CallRequest { priority: CallPriority::Ending, ..request(pool, "c", CapacityUse::None) }
}

fn exhausted() -> CallOutcome {
    CallOutcome::of_error(Code::ResourceExhausted, CapacityUse::Takes, "full")
}

fn let_in(limiter: &mut CallLimiter, request: CallRequest, now: Moment) -> CallId {
    match limiter.arrive(request, now) {
        Arrival::Waits(id) => id,
        Arrival::TurnedAway => panic!("expected to be let into the line"),
    }
}

/// The pools of those who are out, in the order in which they left.
fn pools(limiter: &CallLimiter, admitted: &[CallId]) -> Vec<String> {
    admitted.iter().map(|id| limiter.requests[id].0.pool.clone()).collect()
}

/// Shows LIM-2.
#[test]
fn every_deployment_has_its_turn_however_many_wait_in_another() {
    let mut limiter = limiter(1);
    for _ in 0..1000 {
        let_in(&mut limiter, create("crowd", "c"), SECOND);
    }
    let small = let_in(&mut limiter, create("small", "c"), SECOND);
    let first = limiter.admit(SECOND);
    assert_eq!(pools(&limiter, &first), ["crowd"]);
    limiter.leave(first[0], &CallOutcome::Answered, SECOND, 0.0);
    assert_eq!(limiter.admit(SECOND), [small]);
}

/// Shows LIM-2.
#[test]
fn a_deployment_whose_calls_hang_leaves_places_for_others() {
    let mut limiter = limiter(50);
    for _ in 0..1000 {
        let_in(&mut limiter, create("hangs", "c"), SECOND);
    }
    let hanging = limiter.admit(SECOND).len();
    assert!((40..50).contains(&hanging), "{hanging}");
    let_in(&mut limiter, delete("hangs"), SECOND);
    assert_eq!(limiter.admit(SECOND).len(), 1, "its own deletions find one as well");
    for newcomer in ["a", "b"] {
        let_in(&mut limiter, create(newcomer, "c"), SECOND);
        assert_eq!(limiter.admit(SECOND).len(), 1, "{newcomer} finds a place");
    }
}

/// Shows LIM-3.
#[test]
fn deletions_and_creations_of_a_deployment_take_turns() {
    let mut limiter = limiter(1);
    for _ in 0..4 {
        let_in(&mut limiter, create("p", "c"), SECOND);
        let_in(&mut limiter, delete("p"), SECOND);
    }
    let mut order = Vec::new();
    while let Some(&id) = limiter.admit(SECOND).first() {
        order.push(limiter.requests[&id].0.priority);
        limiter.leave(id, &CallOutcome::Answered, SECOND, 0.0);
    }
    assert_eq!(order, [CallPriority::Ending, CallPriority::Making].repeat(4));
}

/// Shows LIM-1.
#[test]
fn credentials_do_not_share_places() {
    let mut limiter = limiter(1);
    let_in(&mut limiter, create("p", "c"), SECOND);
    let_in(&mut limiter, CallRequest { credential: "others".into(), ..create("p", "c") }, SECOND);
    assert_eq!(limiter.admit(SECOND).len(), 2);
}

#[test]
fn who_is_given_up_in_the_line_leaves_no_gap() {
    let mut limiter = limiter(1);
    let gone = let_in(&mut limiter, create("p", "c"), SECOND);
    let next = let_in(&mut limiter, create("p", "c"), SECOND);
    limiter.leave(gone, &CallOutcome::Nothing, SECOND, 0.0);
    assert_eq!(limiter.admit(SECOND), [next]);
    assert_eq!(limiter.traffic()["keys"], Traffic { out: 1, waiting: 0, paused: false });
}

/// Shows LIM-5.
#[test]
fn an_exhausted_class_is_held_back_and_everything_else_goes_on() {
    let mut limiter = limiter(2);
    let first = let_in(&mut limiter, create("p", "full"), SECOND);
    let second = let_in(&mut limiter, create("p", "full"), SECOND);
    limiter.admit(SECOND);
    let waiting = let_in(&mut limiter, create("p", "full"), SECOND);
    let aftermath = limiter.leave(first, &exhausted(), SECOND, 0.0);
    assert_eq!(aftermath.turned_away, [waiting], "who would only be refused does not even ask");
    limiter.leave(waiting, &CallOutcome::Nothing, SECOND, 0.0);
    limiter.leave(second, &exhausted(), 2 * SECOND, 0.0);

    assert_eq!(
        limiter.room("full", 2 * SECOND).unwrap().1,
        RETRY.saturating_sub(SECOND),
        "the wait began with the first refusal"
    );
    assert_eq!(limiter.arrive(create("p", "full"), 2 * SECOND), Arrival::TurnedAway);
    let_in(&mut limiter, request("p", "full", CapacityUse::Precedes), 2 * SECOND);
    let_in(&mut limiter, CallRequest { class: "full".into(), ..delete("p") }, 2 * SECOND);
    assert_eq!(limiter.admit(2 * SECOND).len(), 2, "status and deletion");
    assert!(limiter.room("other", 2 * SECOND).is_none());
}

/// Shows LIM-5.
#[test]
fn after_the_wait_one_tries_and_success_lets_twice_as_many() {
    let mut limiter = limiter(8);
    let refused = let_in(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.leave(refused, &exhausted(), SECOND, 0.0);
    assert_eq!(limiter.next_change(), Some(SECOND + RETRY));
    assert!(limiter.classes_due(RETRY).is_empty());
    let now = SECOND + RETRY;
    assert_eq!(limiter.classes_due(now), ["c"]);
    assert!(limiter.classes_due(now).is_empty(), "told once");

    let probe = let_in(&mut limiter, create("p", "c"), now);
    assert_eq!(limiter.arrive(create("p", "c"), now), Arrival::TurnedAway, "one at a time");
    limiter.admit(now);
    assert_eq!(limiter.leave(probe, &CallOutcome::Made, now, 0.0).roomier.as_deref(), Some("c"));
    let two = [let_in(&mut limiter, create("p", "c"), now), let_in(&mut limiter, create("p", "c"), now)];
    assert_eq!(limiter.arrive(create("p", "c"), now), Arrival::TurnedAway);
    limiter.admit(now);
    limiter.leave(two[0], &exhausted(), now, 0.0);
    assert_eq!(limiter.room("c", now).unwrap().1, RETRY, "full again");
    limiter.leave(two[1], &CallOutcome::Made, now, 0.0);
    assert!(limiter.room("c", now).is_some(), "the wait stays");

    let now = now + RETRY;
    for _ in 0..3 {
        let probe = let_in(&mut limiter, create("p", "c"), now);
        limiter.admit(now);
        limiter.leave(probe, &CallOutcome::Made, now, 0.0);
    }
    for _ in 0..100 {
        let_in(&mut limiter, create("p", "c"), now);
    }
    assert_eq!(limiter.classes_held_back(now).count(), 0);
}

/// Shows LIM-5.
#[test]
fn a_question_before_the_try_takes_its_turn_so_that_not_everybody_asks() {
    let mut limiter = limiter(8);
    let refused = let_in(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.leave(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    let status = let_in(&mut limiter, request("p", "c", CapacityUse::Precedes), now);
    limiter.admit(now);
    assert!(limiter.room("c", now).is_some());
    limiter.leave(status, &CallOutcome::Answered, now, 0.0);
    assert!(limiter.room("c", now).is_none(), "an answer to a question says nothing about room");
}

/// Shows LIM-5.
#[test]
fn a_try_that_takes_longer_than_a_wait_does_not_hold_up_its_class() {
    let mut limiter = limiter(8);
    let refused = let_in(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.leave(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    let_in(&mut limiter, create("p", "c"), now);
    assert!(limiter.room("c", now + Duration::from_secs(599)).is_some());
    assert!(limiter.room("c", now + RETRY).is_none());
}

/// Lets calls about this many machines fail at once.
fn throttle(limiter: &mut CallLimiter, machines: usize, now: Moment) {
    for n in 0..machines {
        let_in(limiter, CallRequest { subject: format!("m-{n}"), ..create("p", "c") }, now);
    }
    for id in limiter.admit(now) {
        limiter.leave(id, &CallOutcome::Throttled, now, 0.0);
    }
}

/// Shows LIM-4.
#[test]
fn one_machine_that_is_always_refused_does_not_pause_the_others() {
    let mut limiter = limiter(10);
    for _ in 0..20 {
        throttle(&mut limiter, 1, SECOND);
    }
    assert!(!limiter.traffic()["keys"].paused, "the same one again and again is no proof");
    for _ in 0..20 {
        throttle(&mut limiter, 2, SECOND);
        let ok = let_in(&mut limiter, create("p", "c"), SECOND);
        assert_eq!(limiter.admit(SECOND), [ok]);
        limiter.leave(ok, &CallOutcome::Answered, SECOND, 0.0);
    }
}

/// Shows LIM-4.
#[test]
fn a_throttling_cloud_is_left_alone_then_one_call_tries_for_all() {
    let mut limiter = limiter(10);
    throttle(&mut limiter, 5, SECOND);
    let (a, b) = (let_in(&mut limiter, delete("q"), SECOND), let_in(&mut limiter, create("r", "c"), SECOND));
    assert!(limiter.admit(SECOND).is_empty());
    assert!(limiter.traffic()["keys"].paused);
    assert_eq!(limiter.next_change(), Some(2 * SECOND));
    assert_eq!(limiter.admit(2 * SECOND), [a], "one tries");
    limiter.leave(a, &CallOutcome::Throttled, 2 * SECOND, 0.0);
    assert_eq!(limiter.next_change(), Some(4 * SECOND), "twice as long");
    assert!(limiter.admit(3 * SECOND).is_empty());
    assert_eq!(limiter.admit(4 * SECOND), [b]);
    let c = let_in(&mut limiter, delete("p"), 4 * SECOND);
    assert!(limiter.admit(4 * SECOND).is_empty(), "nobody leaves beside it");
    limiter.leave(b, &CallOutcome::Answered, 5 * SECOND, 0.0);
    assert_eq!(limiter.admit(5 * SECOND), [c]);
    limiter.leave(c, &CallOutcome::Answered, 5 * SECOND, 0.0);
    assert!(limiter.traffic().is_empty());
}

/// Shows LIM-4.
#[test]
fn a_try_that_is_not_refused_at_once_has_been_let_in() {
    let mut limiter = limiter(10);
    throttle(&mut limiter, 3, SECOND);
    let slow = let_in(&mut limiter, create("q", "c"), SECOND);
    let next = let_in(&mut limiter, create("r", "c"), SECOND);
    assert_eq!(limiter.admit(2 * SECOND), [slow]);
    assert_eq!(limiter.next_change(), Some(12 * SECOND));
    assert_eq!(limiter.admit(12 * SECOND), [next]);
}

/// Shows LIM-4.
#[test]
fn a_pause_grows_no_longer_than_its_bound() {
    let mut limiter = limiter(1);
    let mut now = SECOND;
    for n in 0..3 {
        let id = let_in(&mut limiter, CallRequest { subject: format!("m-{n}"), ..create("p", "c") }, now);
        limiter.admit(now);
        limiter.leave(id, &CallOutcome::Throttled, now, 0.0);
    }
    for _ in 0..40 {
        let next = limiter.next_change().expect("it is paused");
        assert!(next.saturating_sub(now) <= Policy::default().throttle_longest_pause);
        now = next;
        throttle(&mut limiter, 1, now);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Arrive { pool: u8, class: u8, ending: bool },
    Admit,
    Leave { which: usize, decision: u8 },
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0u8..4, 0u8..3, any::<bool>()).prop_map(|(pool, class, ending)| Act::Arrive { pool, class, ending }),
        3 => Just(Act::Admit),
        3 => (any::<usize>(), 0u8..5).prop_map(|(which, decision)| Act::Leave { which, decision }),
        1 => (1u64..700).prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 0..200)
}

proptest! {
    /// Shows LIM-1.
    #[test]
    fn places_are_never_overspent_and_nobody_waits_for_ever(places in 1usize..6, acts in acts()) {
        let mut limiter = limiter(places);
        let mut now = SECOND;
        for act in acts {
            match act {
                Act::Arrive { pool, class, ending } => {
                    let (pool, class) = (format!("p{pool}"), format!("c{class}"));
                    limiter.arrive(if ending { delete(&pool) } else { create(&pool, &class) }, now);
                }
                Act::Admit => {
                    limiter.admit(now);
                }
                Act::Leave { which, decision } => {
                    let out: Vec<_> = limiter.requests.iter().filter(|(_, (_, s))| *s == State::Out).map(|(id, _)| *id).collect();
                    if let Some(id) = out.get(which % out.len().max(1)) {
                        let decision = [CallOutcome::Made, CallOutcome::Answered, CallOutcome::Throttled, exhausted(), CallOutcome::Nothing]
                            [usize::from(decision)].clone();
                        for turned in limiter.leave(*id, &decision, now, 0.5).turned_away {
                            limiter.leave(turned, &CallOutcome::Nothing, now, 0.5);
                        }
                    }
                }
                Act::Wait(seconds) => now += Duration::from_secs(seconds),
            }
            let out = limiter.requests.values().filter(|(_, state)| *state == State::Out).count();
            prop_assert!(out <= places);
        }
        // With a cloud that answers, all are served: each round a call ends or time brings the next change.
        for _ in 0..2000 {
            limiter.classes_due(now);
            limiter.admit(now);
            let out = limiter.requests.iter().find(|(_, (_, s))| *s == State::Out).map(|(id, _)| *id);
            match out {
                Some(id) => {
                    limiter.leave(id, &CallOutcome::Answered, now, 0.5);
                }
                None => match limiter.next_change() {
                    Some(next) if !limiter.requests.is_empty() && next > now => now = next,
                    _ => break,
                },
            }
        }
        prop_assert!(limiter.requests.is_empty(), "{:?}", limiter.requests);
    }
}
