use std::collections::BTreeMap;

use api::Code;
use planner::machine::{Call, Failure};
use proptest::prelude::*;
use runtime::queue::RetryPolicy;
use runtime::{Metrics, Random};

use super::*;

fn calls() -> OpenCalls {
    let (metrics, random) = (Metrics::new().unwrap(), Random::seeded(1));
    let queue = Queue::new("machine", RetryPolicy::default(), &metrics, &random);
    OpenCalls::new(MachineMemory::default(), queue, Clock::system())
}

fn machine(name: &str) -> (Key, Uid) {
    (Key::new("ns", name), Uid::from("u"))
}

fn create(calls: &OpenCalls, key: &Key, uid: &Uid) -> Option<OpenCall> {
    calls.begin(key, uid, Call::Create, Duration::MAX, Cancellation::Never)
}

fn failed() -> VmState {
    let (call, code, at) = (Call::Create, Code::InvalidArgument, Timestamp::UNIX_EPOCH);
    VmState::Failed(Failure { call, code, text: String::new(), last_known_state: None, at })
}

fn answered(vm: VmState) -> End {
    End::Answered { vm, note: None }
}

/// Shows MC-W3.
#[tokio::test]
async fn machine_has_one_call_at_a_time_and_its_end_wakes_it() {
    let calls = calls();
    let (key, uid) = machine("m");
    let call = create(&calls, &key, &uid).unwrap();
    assert!(create(&calls, &key, &uid).is_none());
    assert!(create(&calls, &key, &"its successor".into()).is_none(), "VMs are found by name");
    assert!(calls.queue.is_empty());
    call.end(answered(VmState::Absent));
    assert_eq!(calls.queue.next().await.key(), &key);
    assert_eq!(calls.snapshot(&key, &uid).1.vm, VmState::Absent);
    assert!(create(&calls, &key, &uid).is_some());
}

/// Shows MC-W56.
#[test]
fn call_whose_task_panicked_ends_and_its_vm_is_unknown() {
    let calls = calls();
    let (key, uid) = machine("m");
    create(&calls, &key, &uid).unwrap().end(answered(VmState::Absent));
    let call = create(&calls, &key, &uid).unwrap();
    let task = std::thread::spawn(move || {
        let _owned = call;
        panic!("on purpose");
    });
    assert!(task.join().is_err());
    let (call, record) = calls.snapshot(&key, &uid);
    assert_eq!((call, record.vm), (None, VmState::Unknown), "a create based on the old state could make a second VM");
    assert_eq!(calls.queue.len(), 1);
}

#[test]
fn call_that_was_not_sent_changes_nothing() {
    let calls = calls();
    let (key, uid) = machine("m");
    create(&calls, &key, &uid).unwrap().end(answered(VmState::Absent));
    create(&calls, &key, &uid).unwrap().end(End::NothingSent);
    let (call, record) = calls.snapshot(&key, &uid);
    assert_eq!((call, record.vm), (None, VmState::Absent));
}

/// Shows MC-W22.
#[test]
fn reset_backoff_applies_to_failed_calls_and_calls_in_progress() {
    let calls = calls();
    let (key, uid) = machine("m");
    let vm = || calls.snapshot(&key, &uid).1.vm;
    create(&calls, &key, &uid).unwrap().end(answered(failed()));
    assert!(calls.reset_backoff(&key));
    assert_eq!(vm(), VmState::Unknown);
    for end in [answered(failed()), End::NothingSent] {
        create(&calls, &key, &uid).unwrap().end(answered(failed()));
        let call = create(&calls, &key, &uid).unwrap();
        assert!(calls.reset_all_backoffs().is_empty(), "no Machine is woken while its call is in progress");
        call.end(end);
        assert_eq!(vm(), VmState::Unknown, "the call was made with what has changed since");
    }
    create(&calls, &key, &uid).unwrap().end(answered(failed()));
    assert_eq!(vm(), failed(), "the reset applies once");
    assert_eq!(calls.reset_all_backoffs(), std::slice::from_ref(&key));
}

#[test]
fn note_is_kept_until_the_driver_returns_another_one() {
    let calls = calls();
    let (key, uid) = machine("m");
    for (note, kept) in [(Some("disk 7"), Some("disk 7")), (None, Some("disk 7")), (Some("disk 8"), Some("disk 8"))] {
        let note = note.map(str::to_owned);
        create(&calls, &key, &uid).unwrap().end(End::Answered { vm: failed(), note });
        assert_eq!(calls.snapshot(&key, &uid).1.note(), kept);
    }
}

/// What happens to the calls about a few Machines.
#[derive(Clone, Debug)]
enum Happening {
    Begin,
    Send,
    Answer,
    Fail,
    EndUnsent,
    Panic,
    ResetBackoffs,
    RemoveMachine,
    RecreateMachine,
}

fn happening() -> impl Strategy<Value = (usize, Happening)> {
    let what = prop_oneof![
        3 => Just(Happening::Begin),
        1 => Just(Happening::Send),
        1 => Just(Happening::Answer),
        1 => Just(Happening::Fail),
        1 => Just(Happening::EndUnsent),
        1 => Just(Happening::Panic),
        1 => Just(Happening::ResetBackoffs),
        1 => Just(Happening::RemoveMachine),
        1 => Just(Happening::RecreateMachine),
    ];
    (0usize..3, what)
}

proptest! {
    /// The tasks own their calls in `tasks`. Exactly these calls are shown to the plans.
    /// Shows MC-W5.
    #[test]
    fn open_calls_are_those_of_the_running_tasks(happenings in prop::collection::vec(happening(), 0..60)) {
        let calls = calls();
        let mut tasks: BTreeMap<usize, (Uid, OpenCall)> = BTreeMap::new();
        let mut uids = [0u32; 3];
        for (n, what) in happenings {
            let key = Key::new("ns", format!("m-{n}").as_str());
            let uid = |uids: &[u32; 3]| Uid::from(uids[n].to_string().as_str());
            match what {
                Happening::Begin => {
                    let begun = create(&calls, &key, &uid(&uids));
                    prop_assert_eq!(begun.is_some(), !tasks.contains_key(&n));
                    tasks.extend(begun.map(|call| (n, (uid(&uids), call))));
                }
                Happening::Send => if let Some((_, call)) = tasks.get(&n) { call.ends_by(Instant::now()) },
                Happening::Answer => if let Some((_, call)) = tasks.remove(&n) { call.end(answered(VmState::Absent)) },
                Happening::Fail => if let Some((_, call)) = tasks.remove(&n) { call.end(answered(failed())) },
                Happening::EndUnsent => if let Some((_, call)) = tasks.remove(&n) { call.end(End::NothingSent) },
                Happening::Panic => drop(tasks.remove(&n)),
                Happening::ResetBackoffs => drop(calls.reset_all_backoffs()),
                Happening::RemoveMachine => calls.memory.forget(&key),
                Happening::RecreateMachine => uids[n] += 1,
            }
            for (n, uid) in uids.iter().enumerate() {
                let uid = Uid::from(uid.to_string().as_str());
                let (shown, _) = calls.snapshot(&Key::new("ns", format!("m-{n}").as_str()), &uid);
                prop_assert_eq!(shown.is_some(), tasks.get(&n).is_some_and(|(about, _)| *about == uid));
            }
            prop_assert_eq!(calls.all().len(), tasks.len());
        }
        tasks.clear();
        prop_assert!(calls.all().is_empty(), "no call remains after the tasks have ended");
    }
}
