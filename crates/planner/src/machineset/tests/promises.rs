//! Properties that hold for every sequence of events.

use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::fixture::{RequestResult, SetFixture};

/// What may happen between two reconciles.
#[derive(Clone, Debug)]
enum Event {
    /// A reconcile whose requests have these results.
    Pass(Vec<RequestResult>),
    /// The cache is updated with one object.
    See(usize),
    SeeAll,
    Scale(i32),
    /// A Machine enters this phase.
    Phase(usize, &'static str),
    /// A user deletes a Machine.
    Delete(usize),
    /// A deletion completes.
    Finish(usize),
    /// A user changes the template.
    Template(u32),
    Preserve(usize, &'static str),
    Freeze(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let result = prop_oneof![4 => Just(RequestResult::Done), 1 => Just(RequestResult::ResponseLost), 1 => Just(RequestResult::RequestLost), 1 => Just(RequestResult::Refused)];
    let phases = vec!["Pending", "Running", "Unknown", "Failed", "CrashLoopBackOff"];
    prop_oneof![
        6 => prop::collection::vec(result, 0..6).prop_map(Event::Pass),
        4 => (0usize..50).prop_map(Event::See),
        1 => Just(Event::SeeAll),
        2 => (0i32..8).prop_map(Event::Scale),
        3 => (0usize..50, prop::sample::select(phases)).prop_map(|(n, phase)| Event::Phase(n, phase)),
        1 => (0usize..50).prop_map(Event::Delete),
        2 => (0usize..50).prop_map(Event::Finish),
        1 => (1u32..4).prop_map(Event::Template),
        1 => (0usize..50, prop::sample::select(vec!["now", "when-failed", "false", ""])).prop_map(|(n, v)| Event::Preserve(n, v)),
        1 => any::<bool>().prop_map(Event::Freeze),
    ]
}

fn change(fixture: &mut SetFixture, place: usize, change: impl FnOnce(&mut serde_json::Value)) {
    // The cache is not updated: only `See` does that.
    let Some(name) = fixture.machines.keys().nth(place % fixture.machines.len().max(1)).cloned() else { return };
    let (cached, outstanding) = (fixture.cached.clone(), fixture.outstanding.clone());
    fixture.edit(&name, change);
    (fixture.cached, fixture.outstanding) = (cached, outstanding);
}

fn happen(fixture: &mut SetFixture, event: &Event) {
    match event {
        Event::Pass(results) => {
            fixture.results.clone_from(results);
            fixture.reconcile();
            fixture.results.clear();
        }
        Event::See(n) => fixture.catch_up_one(*n),
        Event::SeeAll => fixture.catch_up(),
        Event::Scale(replicas) => fixture.edit_set(|set| set["spec"]["replicas"] = json!(replicas)),
        Event::Phase(n, phase) => change(fixture, *n, |m| m["status"]["currentStatus"]["phase"] = json!(phase)),
        Event::Delete(n) => change(fixture, *n, |m| m["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z")),
        Event::Finish(n) => {
            let deleting = fixture.machines.values().filter(|m| api::Object::is_deleting(*m));
            let names: Vec<String> = deleting.map(|m| api::Object::name(m).to_owned()).collect();
            if let Some(name) = names.get(n % names.len().max(1)) {
                fixture.finish(name);
            }
        }
        Event::Template(hours) => {
            fixture.edit_set(|set| set["spec"]["template"]["spec"]["drainTimeout"] = json!(format!("{hours}h")));
        }
        Event::Preserve(n, value) => change(fixture, *n, |m| {
            m["metadata"]["annotations"] = json!({ "node.machine.sapcloud.io/preserve": value });
        }),
        Event::Freeze(frozen) => fixture.edit_set(|set| {
            set["metadata"]["labels"] = if *frozen { json!({ "freeze": "True" }) } else { json!({}) };
        }),
    }
}

/// Machines that were deleted by others and that the cache still shows as staying.
fn unseen_departures(fixture: &SetFixture) -> usize {
    let stays = |uid: &Uid| fixture.machines.values().any(|m| m.uid() == *uid && !m.is_deleting());
    let shown = fixture.cached.values().filter(|m| !m.is_deleting());
    shown.filter(|m| !stays(&m.uid()) && !fixture.outstanding.deletes.contains(&m.uid())).count()
}

fn failed(fixture: &SetFixture) -> usize {
    let failed = |m: &&api::Machine| !m.is_deleting() && *m.phase() == api::MachinePhase::Failed;
    fixture.machines.values().filter(failed).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Shows MS-W1.
    #[test]
    fn machines_never_exceed_the_largest_desired_number(
        replicas in 0i32..8,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = SetFixture::new(replicas);
        let mut most = replicas;
        for event in &events {
            if let Event::Scale(replicas) = event {
                most = most.max(*replicas);
            }
            happen(&mut fixture, event);
            prop_assert!(fixture.living().len() <= usize::try_from(most).unwrap(), "{event:?}: {:?}", fixture.living());
        }
    }

    /// Shows MS-R14.
    #[test]
    fn constant_replicas_are_never_exceeded_or_undercut(
        replicas in 0i32..8,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = SetFixture::new(replicas);
        fixture.settle();
        let mut asked = 0;
        for event in events.iter().filter(|event| !matches!(event, Event::Scale(_))) {
            asked += usize::from(matches!(event, Event::Delete(_)));
            asked += usize::from(matches!(event, Event::Phase(_, "Failed")));
            happen(&mut fixture, event);
            let living = fixture.living().len();
            prop_assert!(living <= usize::try_from(replicas).unwrap());
            // There are fewer only because of deletions by others and failures.
            prop_assert!(living + asked >= usize::try_from(replicas).unwrap(), "{event:?}");
        }
    }

    /// Shows MS-R17.
    #[test]
    fn reconcile_deletes_no_machine_that_is_needed(
        replicas in 0i32..8,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = SetFixture::new(replicas);
        fixture.settle();
        for event in &events {
            let before = fixture.living().len();
            // Deletions by others that are not in the cache, and Failed Machines that may be deleted, are not decisions
            // of the MachineSet.
            let theirs = unseen_departures(&fixture) + failed(&fixture);
            happen(&mut fixture, event);
            let wanted = usize::try_from(fixture.set.spec.replicas).unwrap();
            if let Event::Pass(_) = event {
                prop_assert!(
                    fixture.living().len() + theirs >= before.min(wanted),
                    "{} of {wanted} are left of {before}: {events:?}", fixture.living().len()
                );
            }
        }
    }

    /// Shows MS-R14.
    #[test]
    fn set_converges_when_changes_and_faults_stop(
        replicas in 0i32..8,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = SetFixture::new(replicas);
        for event in &events {
            happen(&mut fixture, event);
        }
        happen(&mut fixture, &Event::Freeze(false));
        // Lost requests are awaited until their deadline. Only the wake of the MachineSet itself ends the wait.
        let mut sleeps = 0;
        loop {
            fixture.settle();
            fixture.finish_all();
            fixture.settle();
            if !fixture.sleep() {
                break;
            }
            sleeps += 1;
            prop_assert!(sleeps < 5, "it requeues itself endlessly: {:#?}", fixture.plan());
        }
        let kept = fixture.living().len();
        prop_assert_eq!(kept, usize::try_from(fixture.set.spec.replicas).unwrap());
        let plan = fixture.plan();
        prop_assert_eq!(plan.steps, []);
        prop_assert_eq!(plan.because, Reason::Converged);
        prop_assert_eq!(plan.wake, crate::Wake::On(crate::Awaited::Change), "and waits for changes");
        prop_assert_eq!(fixture.set.status.replicas, fixture.set.spec.replicas);
        let version = fixture.set.metadata.resource_version.clone();
        prop_assert!(!fixture.reconcile(), "nothing to write");
        prop_assert_eq!(&fixture.set.metadata.resource_version, &version);
    }

    /// Shows MS-R11.
    #[test]
    fn deleted_set_leaves_nothing_behind(
        replicas in 0i32..8,
        before in prop::collection::vec(event(), 0..40),
        after in prop::collection::vec(event(), 0..20),
    ) {
        let mut fixture = SetFixture::new(replicas);
        for event in &before {
            happen(&mut fixture, event);
        }
        fixture.edit_set(|set| set["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z"));
        for event in &after {
            if !fixture.set_is_gone {
                happen(&mut fixture, event);
            }
        }
        for _ in 0..10 {
            fixture.finish_all();
            fixture.outstanding = Outstanding::default(); // lost requests are no longer awaited
            fixture.settle();
        }
        prop_assert!(fixture.set_is_gone);
        prop_assert_eq!(fixture.living(), Vec::<&str>::new());
    }
}
