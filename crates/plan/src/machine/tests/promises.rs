//! What holds whatever happens in between.

use std::time::Duration;

use api::{Code, MachinePhase};
use proptest::prelude::*;

use super::super::*;
use super::world::World;

/// What may go wrong between two passes.
#[derive(Clone, Debug)]
enum Mishap {
    Nothing,
    /// The process dies: what it remembered is lost.
    Crash,
    /// The next driver call fails.
    Failure(Code),
    /// Time passes.
    Wait(u64),
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
            Mishap::Nothing => {}
            Mishap::Crash => {
                world.vm = VmKnowledge::Unasked;
                world.pods = PodsOnNode::NotLooked;
            }
            Mishap::Failure(code) => world.failures = vec![*code],
            Mishap::Wait(seconds) => world.wait(Duration::from_secs(*seconds)),
        }
        world.pass();
    }
    world.failures.clear();
}

/// Passes, waiting where the plan waits for time, until it waits for somebody else.
fn come_to_rest(world: &mut World) {
    for _ in 0..200 {
        if world.machine.is_none() {
            return;
        }
        if !world.pass() {
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
    fn whatever_happened_a_deleted_machine_leaves_nothing_behind(
        before in prop::collection::vec(mishap(), 0..20),
        joined in any::<bool>(),
        early in any::<bool>(),
        after in prop::collection::vec(mishap(), 0..20),
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
        world.pass();
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
