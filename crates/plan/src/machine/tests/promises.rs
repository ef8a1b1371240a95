//! What holds whatever happens in between.

use std::time::Duration;

use api::{Code, MachinePhase, Object};
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::world::World;

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

fn live_through(world: &mut World, mishaps: &[Mishap]) {
    for mishap in mishaps {
        match mishap {
            Mishap::Crash => {
                world.vm = VmState::Unasked;
                world.drain_view = DrainView::default();
            }
            Mishap::Failure(code) => world.failures = vec![*code],
            Mishap::Wait(seconds) => world.wait(Duration::from_secs(*seconds)),
            Mishap::Reports(ready) if world.node.is_some() => world.report(&[("Ready", ready)]),
            Mishap::Lost => world.node = None,
            Mishap::Back if world.vms > 0 => world.register("True"),
            Mishap::Marked if world.machine.is_some() && world.machine().is_deleting() => {
                world.edit(|m| {
                    m["status"]["currentStatus"] = json!({ "phase": "Terminating" });
                    m["status"]["lastOperation"] = json!({ "description": "Deleting machine from cloud provider", "type": "Delete", "state": "Processing" });
                });
            }
            Mishap::Nothing | Mishap::Reports(_) | Mishap::Back | Mishap::Marked => {}
        }
        world.reconcile();
    }
    world.failures.clear();
}

/// Passes, waiting where the plan waits for time, until it waits for somebody else.
fn come_to_rest(world: &mut World) {
    for _ in 0..200 {
        if world.machine.is_none() {
            return;
        }
        if !world.reconcile() {
            let Some(plan) = world.machine.is_some().then(|| world.plan()) else { return };
            match plan.wake {
                Wake::By { awaited: Awaited::Retry | Awaited::Pods, at } => world.now = at,
                _ => return,
            }
        }
    }
    panic!("it never comes to rest: {:#?}", world.diary);
}

proptest! {
    #[test]
    fn one_machine_never_has_two_vms_and_a_plan_makes_one_call_at_its_end(mishaps in prop::collection::vec(mishap(), 0..30)) {
        let mut world = World::new();
        for mishap in mishaps {
            let plan = world.plan();
            let calls = plan.steps.iter().filter(|s| matches!(s, Step::Driver(_))).count();
            prop_assert!(calls == 0 || (calls == 1 && matches!(plan.steps.last(), Some(Step::Driver(_)))));
            live_through(&mut world, &[mishap]);
            prop_assert!(world.created <= 1);
        }
        come_to_rest(&mut world);
        prop_assert!(world.created <= 1);
    }

    #[test]
    fn whatever_happened_a_machine_runs_in_the_end_and_then_needs_nothing(mishaps in prop::collection::vec(mishap(), 0..20)) {
        let mut world = World::new();
        world.policy.creation_timeout = Duration::from_hours(168);
        live_through(&mut world, &mishaps);
        come_to_rest(&mut world);
        world.register("True");
        come_to_rest(&mut world);
        prop_assert_eq!(world.machine().phase(), &MachinePhase::Running);
        prop_assert_eq!(world.vms, 1);
        let plan = world.plan();
        prop_assert!(plan.steps.is_empty());
        prop_assert_eq!(plan.because, Reason::Converged);
    }

    #[test]
    fn whatever_happens_to_its_node_a_machine_is_given_up_or_runs_and_then_needs_nothing(
        mishaps in prop::collection::vec(any_mishap(), 0..30),
        ends_well in any::<bool>(),
    ) {
        let mut world = World::running();
        live_through(&mut world, &mishaps);
        if ends_well {
            world.register("True");
        } else {
            world.node = None;
        }
        for _ in 0..3 {
            come_to_rest(&mut world);
            world.wait(Duration::from_mins(11));
        }
        let expected = if ends_well { MachinePhase::Running } else { MachinePhase::Failed };
        prop_assert_eq!(world.phase(), &expected, "{:#?}", world.diary);
        prop_assert!(world.plan().steps.is_empty());
        prop_assert_eq!((world.created, world.vms), (1, 1));
    }

    #[test]
    fn whatever_happened_a_deleted_machine_leaves_nothing_behind(
        before in prop::collection::vec(mishap(), 0..20),
        joined in any::<bool>(),
        early in any::<bool>(),
        after in prop::collection::vec(any_mishap(), 0..20),
    ) {
        let mut world = World::new();
        live_through(&mut world, &before);
        if joined {
            come_to_rest(&mut world);
            if world.vms > 0 {
                world.register("True");
            }
        } else if early && world.vms > 0 {
            world.register("True"); // before anyone has written down which node it becomes
        }
        world.reconcile();
        world.delete();
        for mishap in after {
            if world.machine.is_some() {
                live_through(&mut world, &[mishap]);
            }
        }
        come_to_rest(&mut world);
        prop_assert!(world.machine.is_none(), "{:#?}", world.diary);
        prop_assert_eq!(world.vms, 0);
        prop_assert!(world.node.is_none());
    }
}
