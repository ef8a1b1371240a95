//! What holds whatever happens in between.

use std::time::Duration;

use api::{Code, MachinePhase, Object};
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// What may go wrong between two reconciles.
#[derive(Clone, Debug)]
enum Mishap {
    Nothing,
    /// The process dies: what it remembered is lost.
    Crash,
    /// The next driver call fails.
    Failure(Code),
    /// Time passes.
    Wait(u64),
    /// The node says this of itself, if it is there.
    Reports(&'static str),
    /// The node is gone.
    Lost,
    /// The node is there again.
    Back,
    /// A manager marks the machine as going, if it is being deleted.
    Marked,
}

/// What may happen to a node as well.
fn any_mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        4 => mishap(),
        2 => prop::sample::select(vec!["True", "False", "Unknown"]).prop_map(Mishap::Reports),
        1 => Just(Mishap::Lost),
        1 => Just(Mishap::Back),
        1 => Just(Mishap::Marked),
    ]
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        3 => Just(Mishap::Nothing),
        2 => Just(Mishap::Crash),
        2 => prop::sample::select(vec![Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted, Code::Internal]).prop_map(Mishap::Failure),
        2 => (1u64..300).prop_map(Mishap::Wait),
    ]
}

fn live_through(fixture: &mut MachineFixture, mishaps: &[Mishap]) {
    for mishap in mishaps {
        match mishap {
            Mishap::Crash => {
                fixture.vm = VmState::Unasked;
                fixture.drain_view = DrainView::default();
            }
            Mishap::Failure(code) => fixture.failures = vec![*code],
            Mishap::Wait(seconds) => fixture.wait(Duration::from_secs(*seconds)),
            Mishap::Reports(ready) if fixture.node.is_some() => fixture.report(&[("Ready", ready)]),
            Mishap::Lost => fixture.node = None,
            Mishap::Back if fixture.vms > 0 => fixture.register("True"),
            Mishap::Marked if fixture.machine.is_some() && fixture.machine().is_deleting() => {
                fixture.edit(|m| {
                    m["status"]["currentStatus"] = json!({ "phase": "Terminating" });
                    m["status"]["lastOperation"] = json!({ "description": "Deleting machine from cloud provider", "type": "Delete", "state": "Processing" });
                });
            }
            Mishap::Nothing | Mishap::Reports(_) | Mishap::Back | Mishap::Marked => {}
        }
        fixture.reconcile();
    }
    fixture.failures.clear();
}

/// Passes, waiting where the plan waits for time, until it waits for somebody else.
fn come_to_rest(fixture: &mut MachineFixture) {
    for _ in 0..200 {
        if fixture.machine.is_none() {
            return;
        }
        if !fixture.reconcile() {
            let Some(plan) = fixture.machine.is_some().then(|| fixture.plan()) else { return };
            match plan.wake {
                Wake::By { awaited: Awaited::Retry | Awaited::Pods, at } => fixture.now = at,
                _ => return,
            }
        }
    }
    panic!("it never comes to rest: {:#?}", fixture.diary);
}

proptest! {
    /// Shows THR-3.
    #[test]
    fn one_machine_never_has_two_vms_and_a_plan_makes_one_call_at_its_end(mishaps in prop::collection::vec(mishap(), 0..30)) {
        let mut fixture = MachineFixture::new();
        for mishap in mishaps {
            let plan = fixture.plan();
            let calls = plan.steps.iter().filter(|s| matches!(s, Step::Driver(_))).count();
            prop_assert!(calls == 0 || (calls == 1 && matches!(plan.steps.last(), Some(Step::Driver(_)))));
            live_through(&mut fixture, &[mishap]);
            prop_assert!(fixture.created <= 1);
        }
        come_to_rest(&mut fixture);
        prop_assert!(fixture.created <= 1);
    }

    /// Shows THR-4.
    #[test]
    fn whatever_happened_a_machine_runs_in_the_end_and_then_needs_nothing(mishaps in prop::collection::vec(mishap(), 0..20)) {
        let mut fixture = MachineFixture::new();
        fixture.policy.creation_timeout = Duration::from_hours(168);
        live_through(&mut fixture, &mishaps);
        come_to_rest(&mut fixture);
        fixture.register("True");
        come_to_rest(&mut fixture);
        prop_assert_eq!(fixture.machine().phase(), &MachinePhase::Running);
        prop_assert_eq!(fixture.vms, 1);
        let plan = fixture.plan();
        prop_assert!(plan.steps.is_empty());
        prop_assert_eq!(plan.because, Reason::Converged);
    }

    #[test]
    fn whatever_happens_to_its_node_a_machine_is_given_up_or_runs_and_then_needs_nothing(
        mishaps in prop::collection::vec(any_mishap(), 0..30),
        ends_well in any::<bool>(),
    ) {
        let mut fixture = MachineFixture::running();
        live_through(&mut fixture, &mishaps);
        if ends_well {
            fixture.register("True");
        } else {
            fixture.node = None;
        }
        for _ in 0..3 {
            come_to_rest(&mut fixture);
            fixture.wait(Duration::from_mins(11));
        }
        let expected = if ends_well { MachinePhase::Running } else { MachinePhase::Failed };
        prop_assert_eq!(fixture.phase(), &expected, "{:#?}", fixture.diary);
        prop_assert!(fixture.plan().steps.is_empty());
        prop_assert_eq!((fixture.created, fixture.vms), (1, 1));
    }

    /// Shows THR-5, MC-W5.
    #[test]
    fn whatever_happened_a_deleted_machine_leaves_nothing_behind(
        before in prop::collection::vec(mishap(), 0..20),
        joined in any::<bool>(),
        early in any::<bool>(),
        after in prop::collection::vec(any_mishap(), 0..20),
    ) {
        let mut fixture = MachineFixture::new();
        live_through(&mut fixture, &before);
        if joined {
            come_to_rest(&mut fixture);
            if fixture.vms > 0 {
                fixture.register("True");
            }
        } else if early && fixture.vms > 0 {
            fixture.register("True"); // before anyone has written down which node it becomes
        }
        fixture.reconcile();
        fixture.delete();
        for mishap in after {
            if fixture.machine.is_some() {
                live_through(&mut fixture, &[mishap]);
            }
        }
        come_to_rest(&mut fixture);
        prop_assert!(fixture.machine.is_none(), "{:#?}", fixture.diary);
        prop_assert_eq!(fixture.vms, 0);
        prop_assert!(fixture.node.is_none());
    }
}
