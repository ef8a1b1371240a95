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
    OpenCalls::new(VmStateCache::default(), queue, Clock::system())
}

fn machine(name: &str) -> (Key, Uid) {
    (Key::new("ns", name), Uid::from("u"))
}

fn create(calls: &OpenCalls, key: &Key, uid: &Uid) -> Option<OpenCall> {
    calls.begin(key, uid, Call::Create, Duration::MAX, Recall::Never)
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
async fn a_machine_has_one_call_at_a_time_and_its_end_wakes_it() {
    let calls = calls();
    let (key, uid) = machine("m");
    let call = create(&calls, &key, &uid).unwrap();
    assert!(create(&calls, &key, &uid).is_none());
    assert!(create(&calls, &key, &"its successor".into()).is_none(), "VMs are found by name");
    assert!(calls.queue.is_empty());
    call.end(answered(VmState::Absent));
    assert_eq!(calls.queue.next().await.key(), &key);
    assert_eq!(calls.look(&key, &uid).1.vm, VmState::Absent);
    assert!(create(&calls, &key, &uid).is_some());
}

/// Shows MC-W56.
#[test]
fn a_call_whose_task_panicked_is_not_out_and_leaves_a_vm_of_which_nothing_is_known() {
    let calls = calls();
    let (key, uid) = machine("m");
    create(&calls, &key, &uid).unwrap().end(answered(VmState::Absent));
    let call = create(&calls, &key, &uid).unwrap();
    let task = std::thread::spawn(move || {
        let _owned = call;
        panic!("on purpose");
    });
    assert!(task.join().is_err());
    let (call, known) = calls.look(&key, &uid);
    assert_eq!((call, known.vm), (None, VmState::Unasked), "to create on what was known before could make a second VM");
    assert_eq!(calls.queue.len(), 1);
}

#[test]
fn a_call_that_was_not_sent_teaches_nothing() {
    let calls = calls();
    let (key, uid) = machine("m");
    create(&calls, &key, &uid).unwrap().end(answered(VmState::Absent));
    create(&calls, &key, &uid).unwrap().end(End::NothingSent);
    let (call, known) = calls.look(&key, &uid);
    assert_eq!((call, known.vm), (None, VmState::Absent));
}

/// Shows MC-W22.
#[test]
fn what_failed_is_tried_again_when_what_it_was_tried_with_has_changed_even_meanwhile() {
    let calls = calls();
    let (key, uid) = machine("m");
    let vm = || calls.look(&key, &uid).1.vm;
    create(&calls, &key, &uid).unwrap().end(answered(failed()));
    assert!(calls.try_again(&key));
    assert_eq!(vm(), VmState::Unasked);
    for end in [answered(failed()), End::NothingSent] {
        create(&calls, &key, &uid).unwrap().end(answered(failed()));
        let call = create(&calls, &key, &uid).unwrap();
        assert!(calls.try_all_again().is_empty(), "nobody is woken while a call is out");
        call.end(end);
        assert_eq!(vm(), VmState::Unasked, "it was made with what has changed since");
    }
    create(&calls, &key, &uid).unwrap().end(answered(failed()));
    assert_eq!(vm(), failed(), "once");
    assert_eq!(calls.try_all_again(), std::slice::from_ref(&key));
}

#[test]
fn what_was_noted_stays_until_something_else_is_noted() {
    let calls = calls();
    let (key, uid) = machine("m");
    for (note, kept) in [(Some("disk 7"), Some("disk 7")), (None, Some("disk 7")), (Some("disk 8"), Some("disk 8"))] {
        let note = note.map(str::to_owned);
        create(&calls, &key, &uid).unwrap().end(End::Answered { vm: failed(), note });
        assert_eq!(calls.look(&key, &uid).1.note(), kept);
    }
}

/// What happens to the calls about a few machines.
#[derive(Clone, Debug)]
enum Happening {
    Begins,
    Leaves,
    IsAnswered,
    Fails,
    IsNotSent,
    Panics,
    Changes,
    MachineGoes,
    MachineIsMadeAnew,
}

fn happening() -> impl Strategy<Value = (usize, Happening)> {
    let what = prop_oneof![
        3 => Just(Happening::Begins),
        1 => Just(Happening::Leaves),
        1 => Just(Happening::IsAnswered),
        1 => Just(Happening::Fails),
        1 => Just(Happening::IsNotSent),
        1 => Just(Happening::Panics),
        1 => Just(Happening::Changes),
        1 => Just(Happening::MachineGoes),
        1 => Just(Happening::MachineIsMadeAnew),
    ];
    (0usize..3, what)
}

proptest! {
    /// The tasks own their calls in `tasks`: what they hold is out, and nobody is told anything else.
    /// Shows MC-W5.
    #[test]
    fn what_a_plan_is_shown_and_the_tasks_that_run_never_disagree(happenings in prop::collection::vec(happening(), 0..60)) {
        let calls = calls();
        let mut tasks: BTreeMap<usize, (Uid, OpenCall)> = BTreeMap::new();
        let mut uids = [0u32; 3];
        for (n, what) in happenings {
            let key = Key::new("ns", format!("m-{n}").as_str());
            let uid = |uids: &[u32; 3]| Uid::from(uids[n].to_string().as_str());
            match what {
                Happening::Begins => {
                    let begun = create(&calls, &key, &uid(&uids));
                    prop_assert_eq!(begun.is_some(), !tasks.contains_key(&n));
                    tasks.extend(begun.map(|call| (n, (uid(&uids), call))));
                }
                Happening::Leaves => if let Some((_, call)) = tasks.get(&n) { call.ends_by(Instant::now()) },
                Happening::IsAnswered => if let Some((_, call)) = tasks.remove(&n) { call.end(answered(VmState::Absent)) },
                Happening::Fails => if let Some((_, call)) = tasks.remove(&n) { call.end(answered(failed())) },
                Happening::IsNotSent => if let Some((_, call)) = tasks.remove(&n) { call.end(End::NothingSent) },
                Happening::Panics => drop(tasks.remove(&n)),
                Happening::Changes => drop(calls.try_all_again()),
                Happening::MachineGoes => calls.vm_states.forget(&key),
                Happening::MachineIsMadeAnew => uids[n] += 1,
            }
            for (n, uid) in uids.iter().enumerate() {
                let uid = Uid::from(uid.to_string().as_str());
                let (shown, _) = calls.look(&Key::new("ns", format!("m-{n}").as_str()), &uid);
                prop_assert_eq!(shown.is_some(), tasks.get(&n).is_some_and(|(about, _)| *about == uid));
            }
            prop_assert_eq!(calls.all().len(), tasks.len());
        }
        tasks.clear();
        prop_assert!(calls.all().is_empty(), "nothing is left when the process ends");
    }
}
