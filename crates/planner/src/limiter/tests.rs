use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_mins(10);

fn limiter(concurrency: usize) -> CallLimiter {
    CallLimiter::new(concurrency, Policy::default())
}

fn request(pool: &str, class: &str, capacity_use: CapacityUse) -> CallRequest {
    CallRequest {
        credential: "keys".into(),
        class: class.into(),
        subject: String::new(),
        pool: pool.into(),
        priority: CallPriority::Create,
        capacity_use,
    }
}

fn create(pool: &str, class: &str) -> CallRequest {
    request(pool, class, CapacityUse::Takes)
}

fn delete(pool: &str) -> CallRequest {
    CallRequest { priority: CallPriority::Delete, ..request(pool, "c", CapacityUse::None) }
}

fn exhausted() -> CallOutcome {
    CallOutcome::of_error(Code::ResourceExhausted, CapacityUse::Takes, "full")
}

fn enqueue(limiter: &mut CallLimiter, request: CallRequest, now: Moment) -> CallId {
    match limiter.enqueue(request, now) {
        Arrival::Queued(id) => id,
        Arrival::Rejected => panic!("the call is queued"),
    }
}

/// Returns the pools of the calls, in the order of their admission.
fn pools(limiter: &CallLimiter, admitted: &[CallId]) -> Vec<String> {
    admitted.iter().map(|id| limiter.requests[id].0.pool.clone()).collect()
}

/// Shows LIM-2.
#[test]
fn queue_is_fair_between_deployments() {
    let mut limiter = limiter(1);
    for _ in 0..1000 {
        enqueue(&mut limiter, create("crowd", "c"), SECOND);
    }
    let small = enqueue(&mut limiter, create("small", "c"), SECOND);
    let first = limiter.admit(SECOND);
    assert_eq!(pools(&limiter, &first), ["crowd"]);
    limiter.finish(first[0], &CallOutcome::Responded, SECOND, 0.0);
    assert_eq!(limiter.admit(SECOND), [small]);
}

/// Shows LIM-2.
#[test]
fn deployment_with_hanging_calls_leaves_slots_for_others() {
    let mut limiter = limiter(50);
    for _ in 0..1000 {
        enqueue(&mut limiter, create("hangs", "c"), SECOND);
    }
    let hanging = limiter.admit(SECOND).len();
    assert!((40..50).contains(&hanging), "{hanging}");
    enqueue(&mut limiter, delete("hangs"), SECOND);
    assert_eq!(limiter.admit(SECOND).len(), 1, "its own deletions get a slot as well");
    for newcomer in ["a", "b"] {
        enqueue(&mut limiter, create(newcomer, "c"), SECOND);
        assert_eq!(limiter.admit(SECOND).len(), 1, "{newcomer} gets a slot");
    }
}

/// Shows LIM-3.
#[test]
fn deletions_and_creations_of_a_deployment_alternate() {
    let mut limiter = limiter(1);
    for _ in 0..4 {
        enqueue(&mut limiter, create("p", "c"), SECOND);
        enqueue(&mut limiter, delete("p"), SECOND);
    }
    let mut order = Vec::new();
    while let Some(&id) = limiter.admit(SECOND).first() {
        order.push(limiter.requests[&id].0.priority);
        limiter.finish(id, &CallOutcome::Responded, SECOND, 0.0);
    }
    assert_eq!(order, [CallPriority::Delete, CallPriority::Create].repeat(4));
}

/// Shows LIM-1.
#[test]
fn credentials_have_separate_limits() {
    let mut limiter = limiter(1);
    enqueue(&mut limiter, create("p", "c"), SECOND);
    enqueue(&mut limiter, CallRequest { credential: "others".into(), ..create("p", "c") }, SECOND);
    assert_eq!(limiter.admit(SECOND).len(), 2);
}

#[test]
fn cancelled_call_is_removed_from_the_queue() {
    let mut limiter = limiter(1);
    let gone = enqueue(&mut limiter, create("p", "c"), SECOND);
    let next = enqueue(&mut limiter, create("p", "c"), SECOND);
    limiter.finish(gone, &CallOutcome::Unknown, SECOND, 0.0);
    assert_eq!(limiter.admit(SECOND), [next]);
    assert_eq!(limiter.traffic()["keys"], Traffic { running: 1, queued: 0, paused: false });
}

/// Shows LIM-5.
#[test]
fn exhausted_class_blocks_only_its_creates() {
    let mut limiter = limiter(2);
    let first = enqueue(&mut limiter, create("p", "full"), SECOND);
    let second = enqueue(&mut limiter, create("p", "full"), SECOND);
    limiter.admit(SECOND);
    let waiting = enqueue(&mut limiter, create("p", "full"), SECOND);
    let effects = limiter.finish(first, &exhausted(), SECOND, 0.0);
    assert_eq!(effects.rejected, [waiting], "a create that would fail is not called");
    limiter.finish(waiting, &CallOutcome::Unknown, SECOND, 0.0);
    limiter.finish(second, &exhausted(), 2 * SECOND, 0.0);

    assert_eq!(
        limiter.exhaustion("full", 2 * SECOND).unwrap().1,
        RETRY.saturating_sub(SECOND),
        "the wait starts with the first failure"
    );
    assert_eq!(limiter.enqueue(create("p", "full"), 2 * SECOND), Arrival::Rejected);
    enqueue(&mut limiter, request("p", "full", CapacityUse::Precedes), 2 * SECOND);
    enqueue(&mut limiter, CallRequest { class: "full".into(), ..delete("p") }, 2 * SECOND);
    assert_eq!(limiter.admit(2 * SECOND).len(), 2, "status and deletion");
    assert!(limiter.exhaustion("other", 2 * SECOND).is_none());
}

/// Shows LIM-5.
#[test]
fn after_the_wait_each_success_doubles_the_trials() {
    let mut limiter = limiter(8);
    let refused = enqueue(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.finish(refused, &exhausted(), SECOND, 0.0);
    assert_eq!(limiter.next_change(), Some(SECOND + RETRY));
    assert!(limiter.classes_to_retry(RETRY).is_empty());
    let now = SECOND + RETRY;
    assert_eq!(limiter.classes_to_retry(now), ["c"]);
    assert!(limiter.classes_to_retry(now).is_empty(), "reported once");

    let probe = enqueue(&mut limiter, create("p", "c"), now);
    assert_eq!(limiter.enqueue(create("p", "c"), now), Arrival::Rejected, "one at a time");
    limiter.admit(now);
    assert_eq!(limiter.finish(probe, &CallOutcome::Created, now, 0.0).more_capacity.as_deref(), Some("c"));
    let two = [enqueue(&mut limiter, create("p", "c"), now), enqueue(&mut limiter, create("p", "c"), now)];
    assert_eq!(limiter.enqueue(create("p", "c"), now), Arrival::Rejected);
    limiter.admit(now);
    limiter.finish(two[0], &exhausted(), now, 0.0);
    assert_eq!(limiter.exhaustion("c", now).unwrap().1, RETRY, "exhausted again");
    limiter.finish(two[1], &CallOutcome::Created, now, 0.0);
    assert!(limiter.exhaustion("c", now).is_some(), "the wait is unchanged");

    let now = now + RETRY;
    for _ in 0..3 {
        let probe = enqueue(&mut limiter, create("p", "c"), now);
        limiter.admit(now);
        limiter.finish(probe, &CallOutcome::Created, now, 0.0);
    }
    for _ in 0..100 {
        enqueue(&mut limiter, create("p", "c"), now);
    }
    assert_eq!(limiter.exhausted_classes(now).count(), 0);
}

/// Shows LIM-5.
#[test]
fn status_before_a_create_takes_the_trial() {
    let mut limiter = limiter(8);
    let refused = enqueue(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.finish(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    let status = enqueue(&mut limiter, request("p", "c", CapacityUse::Precedes), now);
    limiter.admit(now);
    assert!(limiter.exhaustion("c", now).is_some());
    limiter.finish(status, &CallOutcome::Responded, now, 0.0);
    assert!(limiter.exhaustion("c", now).is_none(), "the result of a status call proves no capacity");
}

/// Shows LIM-5.
#[test]
fn trial_longer_than_a_wait_does_not_block_its_class() {
    let mut limiter = limiter(8);
    let refused = enqueue(&mut limiter, create("p", "c"), SECOND);
    limiter.admit(SECOND);
    limiter.finish(refused, &exhausted(), SECOND, 0.0);
    let now = SECOND + RETRY;
    enqueue(&mut limiter, create("p", "c"), now);
    assert!(limiter.exhaustion("c", now + Duration::from_secs(599)).is_some());
    assert!(limiter.exhaustion("c", now + RETRY).is_none());
}

/// Lets calls about this many Machines fail with *Unavailable*.
fn throttle(limiter: &mut CallLimiter, machines: usize, now: Moment) {
    for n in 0..machines {
        enqueue(limiter, CallRequest { subject: format!("m-{n}"), ..create("p", "c") }, now);
    }
    for id in limiter.admit(now) {
        limiter.finish(id, &CallOutcome::Throttled, now, 0.0);
    }
}

/// Shows LIM-4.
#[test]
fn one_failing_machine_does_not_throttle_the_others() {
    let mut limiter = limiter(10);
    for _ in 0..20 {
        throttle(&mut limiter, 1, SECOND);
    }
    assert!(!limiter.traffic()["keys"].paused, "repeated failures of one Machine do not count");
    for _ in 0..20 {
        throttle(&mut limiter, 2, SECOND);
        let ok = enqueue(&mut limiter, create("p", "c"), SECOND);
        assert_eq!(limiter.admit(SECOND), [ok]);
        limiter.finish(ok, &CallOutcome::Responded, SECOND, 0.0);
    }
}

/// Shows LIM-4.
#[test]
fn throttled_credential_tries_with_one_call_after_the_pause() {
    let mut limiter = limiter(10);
    throttle(&mut limiter, 5, SECOND);
    let (a, b) = (enqueue(&mut limiter, delete("q"), SECOND), enqueue(&mut limiter, create("r", "c"), SECOND));
    assert!(limiter.admit(SECOND).is_empty());
    assert!(limiter.traffic()["keys"].paused);
    assert_eq!(limiter.next_change(), Some(2 * SECOND));
    assert_eq!(limiter.admit(2 * SECOND), [a], "one trial");
    limiter.finish(a, &CallOutcome::Throttled, 2 * SECOND, 0.0);
    assert_eq!(limiter.next_change(), Some(4 * SECOND), "twice as long");
    assert!(limiter.admit(3 * SECOND).is_empty());
    assert_eq!(limiter.admit(4 * SECOND), [b]);
    let c = enqueue(&mut limiter, delete("p"), 4 * SECOND);
    assert!(limiter.admit(4 * SECOND).is_empty(), "no other call starts");
    limiter.finish(b, &CallOutcome::Responded, 5 * SECOND, 0.0);
    assert_eq!(limiter.admit(5 * SECOND), [c]);
    limiter.finish(c, &CallOutcome::Responded, 5 * SECOND, 0.0);
    assert!(limiter.traffic().is_empty());
}

/// Shows LIM-4.
#[test]
fn trial_that_is_not_rejected_quickly_counts_as_accepted() {
    let mut limiter = limiter(10);
    throttle(&mut limiter, 3, SECOND);
    let slow = enqueue(&mut limiter, create("q", "c"), SECOND);
    let next = enqueue(&mut limiter, create("r", "c"), SECOND);
    assert_eq!(limiter.admit(2 * SECOND), [slow]);
    assert_eq!(limiter.next_change(), Some(12 * SECOND));
    assert_eq!(limiter.admit(12 * SECOND), [next]);
}

/// Shows LIM-4.
#[test]
fn pause_does_not_exceed_its_maximum() {
    let mut limiter = limiter(1);
    let mut now = SECOND;
    for n in 0..3 {
        let id = enqueue(&mut limiter, CallRequest { subject: format!("m-{n}"), ..create("p", "c") }, now);
        limiter.admit(now);
        limiter.finish(id, &CallOutcome::Throttled, now, 0.0);
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
    Leave { which: usize, outcome: u8 },
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0u8..4, 0u8..3, any::<bool>()).prop_map(|(pool, class, ending)| Act::Arrive { pool, class, ending }),
        3 => Just(Act::Admit),
        3 => (any::<usize>(), 0u8..5).prop_map(|(which, outcome)| Act::Leave { which, outcome }),
        1 => (1u64..700).prop_map(Act::Wait),
    ];
    prop::collection::vec(act, 0..200)
}

proptest! {
    /// Shows LIM-1.
    #[test]
    fn limits_are_kept_and_every_call_starts_eventually(concurrency in 1usize..6, acts in acts()) {
        let mut limiter = limiter(concurrency);
        let mut now = SECOND;
        for act in acts {
            match act {
                Act::Arrive { pool, class, ending } => {
                    let (pool, class) = (format!("p{pool}"), format!("c{class}"));
                    limiter.enqueue(if ending { delete(&pool) } else { create(&pool, &class) }, now);
                }
                Act::Admit => {
                    limiter.admit(now);
                }
                Act::Leave { which, outcome } => {
                    let running: Vec<_> = limiter.requests.iter().filter(|(_, (_, s))| *s == State::Running).map(|(id, _)| *id).collect();
                    if let Some(id) = running.get(which % running.len().max(1)) {
                        let outcome = [CallOutcome::Created, CallOutcome::Responded, CallOutcome::Throttled, exhausted(), CallOutcome::Unknown]
                            [usize::from(outcome)].clone();
                        for turned in limiter.finish(*id, &outcome, now, 0.5).rejected {
                            limiter.finish(turned, &CallOutcome::Unknown, now, 0.5);
                        }
                    }
                }
                Act::Wait(seconds) => now += Duration::from_secs(seconds),
            }
            let running = limiter.requests.values().filter(|(_, state)| *state == State::Running).count();
            prop_assert!(running <= concurrency);
        }
        // If the cloud responds, all calls start: in every round a call ends, or time passes until the next change.
        for _ in 0..2000 {
            limiter.classes_to_retry(now);
            limiter.admit(now);
            let running = limiter.requests.iter().find(|(_, (_, s))| *s == State::Running).map(|(id, _)| *id);
            match running {
                Some(id) => {
                    limiter.finish(id, &CallOutcome::Responded, now, 0.5);
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
