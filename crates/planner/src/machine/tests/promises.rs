//! Properties of the planner under random faults.

use std::time::Duration;

use api::{Code, MachinePhase, Object};
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::fixture::MachineFixture;

/// A fault between two reconciles.
#[derive(Clone, Debug)]
enum Mishap {
    Nothing,
    /// The process restarts and loses its memory.
    Crash,
    /// The next driver call fails.
    Failure(Code),
    /// Time passes.
    Wait(u64),
    /// The Node sets this condition, if it exists.
    Reports(&'static str),
    /// The Node is deleted.
    Lost,
    /// The Node registers again.
    Back,
    /// A manager marks the Machine as terminating, if it is being deleted.
    Marked,
}

/// A fault of a Node.
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
                fixture.vm = VmState::Unknown;
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

/// Reconciles, and waits where the plan waits for time, until it waits for another component.
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
    panic!("the planner does not converge: {:#?}", fixture.history);
}

proptest! {
    /// Shows THR-3.
    #[test]
    fn machine_never_has_two_vms_or_two_calls_in_a_plan(mishaps in prop::collection::vec(mishap(), 0..30)) {
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
    fn machine_always_converges_to_running(mishaps in prop::collection::vec(mishap(), 0..20)) {
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
    fn machine_always_converges_to_running_or_failed(
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
        prop_assert_eq!(fixture.phase(), &expected, "{:#?}", fixture.history);
        prop_assert!(fixture.plan().steps.is_empty());
        prop_assert_eq!((fixture.created, fixture.vms), (1, 1));
    }

    /// Shows THR-5, MC-W5.
    #[test]
    fn deleted_machine_leaves_nothing_behind(
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
            fixture.register("True"); // before its Node is recorded
        }
        fixture.reconcile();
        fixture.delete();
        for mishap in after {
            if fixture.machine.is_some() {
                live_through(&mut fixture, &[mishap]);
            }
        }
        come_to_rest(&mut fixture);
        prop_assert!(fixture.machine.is_none(), "{:#?}", fixture.history);
        prop_assert_eq!(fixture.vms, 0);
        prop_assert!(fixture.node.is_none());
    }
}
