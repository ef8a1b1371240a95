//! Properties that hold for every sequence of changes, failures and crashes.

use api::{MachinePhase, Object, StrategyType};
use proptest::prelude::*;
use serde_json::Value;

use super::super::*;
use super::fixture::{DeploymentFixture, in_place, rolling};

#[derive(Clone, Debug)]
enum Event {
    /// The MachineDeployment is planned, and this many steps are executed before the process exits.
    Reconcile {
        until: usize,
    },
    /// The controller of one MachineSet reconciles.
    Set(usize),
    /// One Machine progresses.
    Machine(usize),
    /// All Machines progress.
    Machines,
    /// One Machine fails, or becomes unhealthy.
    Fail(usize, bool),
    /// One Machine fails and is preserved.
    Preserve(usize),
    /// A user deletes a Machine.
    Delete(usize),
    Replicas(i32),
    Class(u8),
    Pause(bool),
    Rollback,
    Strategy(u8),
    Second,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Reconcile { until: usize::MAX }),
        2 => (0usize..4).prop_map(|until| Event::Reconcile { until }),
        6 => (0usize..4).prop_map(Event::Set),
        5 => (0usize..12).prop_map(Event::Machine),
        2 => Just(Event::Machines),
        2 => (0usize..12, any::<bool>()).prop_map(|(which, dead)| Event::Fail(which, dead)),
        2 => (0usize..12).prop_map(Event::Preserve),
        1 => (0usize..12).prop_map(Event::Delete),
        2 => (0i32..9).prop_map(Event::Replicas),
        2 => (0u8..4).prop_map(Event::Class),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => Just(Event::Rollback),
        1 => (0u8..6).prop_map(Event::Strategy),
        2 => Just(Event::Second),
    ]
}

fn strategy(which: u8) -> Value {
    match which {
        0 => rolling(1, 0),
        1 => rolling("50%", "25%"),
        2 => rolling(0, 2),
        3 => serde_json::json!({ "type": "Recreate" }),
        4 => in_place("Auto", 0, 1),
        _ => in_place("Auto", 1, 1),
    }
}

/// Number of Machines that are not being deleted or that MachineSets may create at any moment.
fn potential(fixture: &DeploymentFixture) -> i32 {
    fixture
        .sets
        .values()
        .map(|set| {
            let live = fixture.machines_of(set).filter(|seen| !seen.machine.is_deleting()).count();
            let creates_none = set.is_deleting() || set.label(api::names::labels::SCALE_UP_DISABLED).is_some();
            let size = if creates_none { 0 } else { set.spec.replicas };
            size.max(i32::try_from(live).unwrap())
        })
        .sum()
}

/// Number of Machines that are available and stay so after scaling: a MachineSet deletes preserved Machines last.
fn kept_available(fixture: &DeploymentFixture) -> i32 {
    let kept = |set: &api::MachineSet| {
        let live = fixture.machines_of(set).filter(|seen| !seen.machine.is_deleting());
        let (preserved, others): (Vec<_>, Vec<_>) = live.partition(|seen| fixture.is_preserved(seen.machine));
        let places = set.spec.replicas - i32::try_from(preserved.len()).unwrap();
        let available = others.iter().filter(|seen| *seen.machine.phase() == MachinePhase::Running).count();
        i32::try_from(available).unwrap().min(places).max(0)
    };
    fixture.sets.values().filter(|set| !set.is_deleting()).map(kept).sum()
}

/// Minimum number of available Machines: the limit, unless preserved Machines would block the rollout, or the
/// MachineDeployment cannot have as many available Machines.
fn least(fixture: &DeploymentFixture) -> i32 {
    let limits = Limits::of(&fixture.deployment);
    let preserved = i32::try_from(fixture.preserved().len()).unwrap();
    limits.least_available().min(limits.most() - preserved - 1).min(limits.replicas - preserved)
}

/// Number of available Machines whose Nodes are not selected for an update.
fn not_selected(fixture: &DeploymentFixture) -> i32 {
    let sets = fixture.sets.values().filter(|set| !set.is_deleting());
    let chosen =
        |seen: &SeenMachine<'_>| seen.node.is_some_and(|n| n.label(api::names::labels::SELECTED_FOR_UPDATE).is_some());
    let free = sets.flat_map(|set| fixture.machines_of(set).collect::<Vec<_>>());
    let free = free.filter(|seen| !chosen(seen) && *seen.machine.phase() == MachinePhase::Running);
    i32::try_from(free.count()).unwrap()
}

fn apply_event(fixture: &mut DeploymentFixture, what: &Event) {
    match what {
        Event::Reconcile { until } => reconcile(fixture, *until),
        Event::Set(which) => {
            if let Some(name) = fixture.sets.keys().nth(*which).cloned() {
                fixture.run_set(&name);
            }
        }
        Event::Machine(which) => {
            if let Some(name) = fixture.machines.keys().nth(*which).cloned() {
                fixture.run_machine(&name);
            }
        }
        Event::Machines => fixture.run_machines(),
        Event::Fail(which, dead) => {
            let name =
                fixture.machines.iter().filter(|(_, m)| !m.is_deleting()).map(|(name, _)| name).nth(*which).cloned();
            if let Some(name) = name {
                fixture.set_phase(&name, if *dead { MachinePhase::Failed } else { MachinePhase::Unknown });
            }
        }
        Event::Preserve(which) => {
            let name = fixture.machines.iter().filter(|(_, m)| !m.is_deleting()).map(|(name, _)| name).nth(*which);
            if let Some(name) = name.cloned() {
                fixture.preserve(&name);
            }
        }
        Event::Delete(which) => {
            if let Some(name) = fixture.machines.keys().nth(*which).cloned() {
                fixture.delete_machine(&name);
            }
        }
        Event::Replicas(replicas) => fixture.edit(|deployment| deployment.spec.replicas = *replicas),
        Event::Class(class) => fixture.use_class(&format!("class-{class}")),
        Event::Pause(paused) => fixture.edit(|deployment| deployment.spec.paused = *paused),
        Event::Rollback => {
            fixture.edit(|deployment| deployment.spec.rollback_to = Some(api::RollbackConfig::default()));
        }
        Event::Strategy(which) => fixture.edit(|deployment| {
            deployment.spec.strategy = serde_json::from_value(strategy(*which)).unwrap();
        }),
        Event::Second => fixture.later(1),
    }
}

/// Reconciles and checks the properties, whatever is decided and wherever the reconcile ends.
fn reconcile(fixture: &mut DeploymentFixture, until: usize) {
    let plan = fixture.plan();
    let limits = Limits::of(&fixture.deployment);
    let (potential_before, kept_before, not_selected_before) =
        (potential(fixture), kept_available(fixture), not_selected(fixture));
    for (done, step) in plan.steps.iter().enumerate() {
        if done >= until {
            return;
        }
        fixture.apply(std::slice::from_ref(step));
        assert!(
            potential(fixture) <= potential_before.max(limits.most()),
            "too many machines after {step}: {:#?}",
            plan.steps
        );
        if fixture.deployment.spec.strategy.kind == StrategyType::RollingUpdate {
            let floor = kept_before.min(least(fixture));
            assert!(kept_available(fixture) >= floor, "too few available machines after {step}: {plan:#?}");
        }
    }
    if fixture.deployment.spec.strategy.kind == StrategyType::InPlaceUpdate {
        let floor = not_selected_before.min(least(fixture));
        assert!(not_selected(fixture) >= floor, "too many Machines selected: {plan:#?}");
    }
}

/// Checks that exactly the desired objects exist.
fn assert_converged(fixture: &DeploymentFixture) {
    let wanted = fixture.deployment.spec.replicas;
    let sizes: i32 = fixture.sets.values().map(|set| set.spec.replicas).sum();
    assert_eq!(
        (sizes, fixture.live()),
        (wanted, wanted),
        "{:#?}",
        fixture.diary.iter().rev().take(20).collect::<Vec<_>>()
    );
    let status = &fixture.deployment.status;
    assert_eq!((status.replicas, status.updated_replicas, status.available_replicas), (wanted, wanted, wanted));
    let plan = fixture.plan();
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert_eq!(plan.because, Reason::Converged);
    for node in fixture.nodes.values() {
        assert_eq!(node.annotation(api::names::annotations::SCALE_DOWN_DISABLED), None, "scale-down is allowed again");
        assert!(!node.spec.taints.iter().any(|taint| taint.key == api::names::taints::PREFER_NO_SCHEDULE));
        assert_eq!(node.label(api::names::labels::CANDIDATE_FOR_UPDATE), None);
        assert!(!node.spec.unschedulable);
    }
}

/// Checks that a rolling update is complete, whatever the number of preserved Machines.
fn assert_rolled(fixture: &DeploymentFixture) {
    if fixture.deployment.spec.strategy.kind != StrategyType::RollingUpdate {
        return;
    }
    let class = &fixture.deployment.spec.template.spec.class.name;
    let old = fixture.sets.values().filter(|set| set.spec.template.spec.class.name != *class);
    let sizes: Vec<_> = old.map(|set| (set.name(), set.spec.replicas)).collect();
    assert!(sizes.iter().all(|(_, size)| *size == 0), "old machines are left: {sizes:?} {:#?}", fixture.diary);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Shows MD-D13, MD-D14, MD-D26.
    #[test]
    fn limits_hold_and_the_deployment_converges(
        replicas in 0i32..7,
        begin in 0u8..6,
        happenings in prop::collection::vec(event(), 0..60),
    ) {
        let mut fixture = DeploymentFixture::settled(replicas, &strategy(begin));
        for event in &happenings {
            apply_event(&mut fixture, event);
        }
        fixture.edit(|deployment| deployment.spec.paused = false);
        let unhealthy: Vec<String> = fixture.machines.iter().filter(|(_, m)| *m.phase() == MachinePhase::Unknown).map(|(name, _)| name.clone()).collect();
        for name in unhealthy {
            let joined = fixture.nodes.contains_key(&name);
            fixture.set_phase(&name, if joined { MachinePhase::Running } else { MachinePhase::Pending });
        }
        fixture.settle();
        assert_rolled(&fixture);
        fixture.later(4 * 24 * 3600); // all preservations have expired
        fixture.settle();
        assert_converged(&fixture);
    }
}
