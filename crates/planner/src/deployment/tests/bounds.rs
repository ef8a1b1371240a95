//! Promises that hold for every fleet, every edit in mid-flight, every failure and every crash.

use api::{MachinePhase, Object, StrategyType};
use proptest::prelude::*;
use serde_json::Value;

use super::super::*;
use super::fixture::{DeploymentFixture, in_place, rolling};

#[derive(Clone, Debug)]
enum Happening {
    /// The deployment is planned, and this many of its steps are carried out before the process dies.
    Reconcile {
        until: usize,
    },
    /// One set's controller looks at it.
    Set(usize),
    /// One machine gets on.
    Machine(usize),
    /// All machines get on.
    Machines,
    /// One machine fails, or becomes unhealthy.
    Fail(usize, bool),
    /// One machine fails and is kept for a look.
    Preserve(usize),
    /// Someone deletes a machine.
    Delete(usize),
    Replicas(i32),
    Class(u8),
    Pause(bool),
    Rollback,
    Strategy(u8),
    Second,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Reconcile { until: usize::MAX }),
        2 => (0usize..4).prop_map(|until| Happening::Reconcile { until }),
        6 => (0usize..4).prop_map(Happening::Set),
        5 => (0usize..12).prop_map(Happening::Machine),
        2 => Just(Happening::Machines),
        2 => (0usize..12, any::<bool>()).prop_map(|(which, dead)| Happening::Fail(which, dead)),
        2 => (0usize..12).prop_map(Happening::Preserve),
        1 => (0usize..12).prop_map(Happening::Delete),
        2 => (0i32..9).prop_map(Happening::Replicas),
        2 => (0u8..4).prop_map(Happening::Class),
        1 => any::<bool>().prop_map(Happening::Pause),
        1 => Just(Happening::Rollback),
        1 => (0u8..6).prop_map(Happening::Strategy),
        2 => Just(Happening::Second),
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

/// Live machines, and those that sets may make at any moment.
fn held(fixture: &DeploymentFixture) -> i32 {
    fixture
        .sets
        .values()
        .map(|set| {
            let live = fixture.machines_of(set).filter(|seen| !seen.machine.is_deleting()).count();
            let makes_none = set.is_deleting() || set.label(api::names::labels::SCALE_UP_DISABLED).is_some();
            let size = if makes_none { 0 } else { set.spec.replicas };
            size.max(i32::try_from(live).unwrap())
        })
        .sum()
}

/// How many machines are available and stay so once every set has its size: a set deletes the preserved ones last.
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

/// How many machines have to be available: what the limits say, unless so many are preserved that no other could move, or that a
/// deployment of this size has no more that could be available.
fn least(fixture: &DeploymentFixture) -> i32 {
    let limits = Limits::of(&fixture.deployment);
    let preserved = i32::try_from(fixture.preserved().len()).unwrap();
    limits.least_available().min(limits.most() - preserved - 1).min(limits.replicas - preserved)
}

/// Available machines whose nodes nobody has chosen for an update.
fn left_in_peace(fixture: &DeploymentFixture) -> i32 {
    let sets = fixture.sets.values().filter(|set| !set.is_deleting());
    let chosen =
        |seen: &SeenMachine<'_>| seen.node.is_some_and(|n| n.label(api::names::labels::SELECTED_FOR_UPDATE).is_some());
    let free = sets.flat_map(|set| fixture.machines_of(set).collect::<Vec<_>>());
    let free = free.filter(|seen| !chosen(seen) && *seen.machine.phase() == MachinePhase::Running);
    i32::try_from(free.count()).unwrap()
}

fn happen(fixture: &mut DeploymentFixture, what: &Happening) {
    match what {
        Happening::Reconcile { until } => reconcile(fixture, *until),
        Happening::Set(which) => {
            if let Some(name) = fixture.sets.keys().nth(*which).cloned() {
                fixture.run_set(&name);
            }
        }
        Happening::Machine(which) => {
            if let Some(name) = fixture.machines.keys().nth(*which).cloned() {
                fixture.run_machine(&name);
            }
        }
        Happening::Machines => fixture.run_machines(),
        Happening::Fail(which, dead) => {
            let name =
                fixture.machines.iter().filter(|(_, m)| !m.is_deleting()).map(|(name, _)| name).nth(*which).cloned();
            if let Some(name) = name {
                fixture.set_phase(&name, if *dead { MachinePhase::Failed } else { MachinePhase::Unknown });
            }
        }
        Happening::Preserve(which) => {
            let name = fixture.machines.iter().filter(|(_, m)| !m.is_deleting()).map(|(name, _)| name).nth(*which);
            if let Some(name) = name.cloned() {
                fixture.preserve(&name);
            }
        }
        Happening::Delete(which) => {
            if let Some(name) = fixture.machines.keys().nth(*which).cloned() {
                fixture.delete_machine(&name);
            }
        }
        Happening::Replicas(replicas) => fixture.edit(|deployment| deployment.spec.replicas = *replicas),
        Happening::Class(class) => fixture.use_class(&format!("class-{class}")),
        Happening::Pause(paused) => fixture.edit(|deployment| deployment.spec.paused = *paused),
        Happening::Rollback => {
            fixture.edit(|deployment| deployment.spec.rollback_to = Some(api::RollbackConfig::default()));
        }
        Happening::Strategy(which) => fixture.edit(|deployment| {
            deployment.spec.strategy = serde_json::from_value(strategy(*which)).unwrap();
        }),
        Happening::Second => fixture.later(1),
    }
}

/// A reconcile, and what must hold whatever it decides and however far it comes.
fn reconcile(fixture: &mut DeploymentFixture, until: usize) {
    let plan = fixture.plan();
    let limits = Limits::of(&fixture.deployment);
    let (held_before, kept_before, peace_before) = (held(fixture), kept_available(fixture), left_in_peace(fixture));
    for (done, step) in plan.steps.iter().enumerate() {
        if done >= until {
            return;
        }
        fixture.apply(std::slice::from_ref(step));
        assert!(held(fixture) <= held_before.max(limits.most()), "too many machines after {step}: {:#?}", plan.steps);
        if fixture.deployment.spec.strategy.kind == StrategyType::RollingUpdate {
            let floor = kept_before.min(least(fixture));
            assert!(kept_available(fixture) >= floor, "too few available machines after {step}: {plan:#?}");
        }
    }
    if fixture.deployment.spec.strategy.kind == StrategyType::InPlaceUpdate {
        let floor = peace_before.min(least(fixture));
        assert!(left_in_peace(fixture) >= floor, "too many machines chosen at once: {plan:#?}");
    }
}

/// Everything that was asked for is there, and nothing else.
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
        assert_eq!(
            node.annotation(api::names::annotations::SCALE_DOWN_DISABLED),
            None,
            "the autoscaler has its nodes back"
        );
        assert!(!node.spec.taints.iter().any(|taint| taint.key == api::names::taints::PREFER_NO_SCHEDULE));
        assert_eq!(node.label(api::names::labels::CANDIDATE_FOR_UPDATE), None);
        assert!(!node.spec.unschedulable);
    }
}

/// However many machines are preserved, a rolling update has come to its end.
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
    fn whatever_happens_the_limits_hold_and_once_it_stops_the_fleet_is_what_was_asked_for(
        replicas in 0i32..7,
        begin in 0u8..6,
        happenings in prop::collection::vec(happening(), 0..60),
    ) {
        let mut fixture = DeploymentFixture::settled(replicas, &strategy(begin));
        for happening in &happenings {
            happen(&mut fixture, happening);
        }
        fixture.edit(|deployment| deployment.spec.paused = false);
        let ill: Vec<String> = fixture.machines.iter().filter(|(_, m)| *m.phase() == MachinePhase::Unknown).map(|(name, _)| name.clone()).collect();
        for name in ill {
            let joined = fixture.nodes.contains_key(&name);
            fixture.set_phase(&name, if joined { MachinePhase::Running } else { MachinePhase::Pending });
        }
        fixture.settle();
        assert_rolled(&fixture);
        fixture.later(4 * 24 * 3600); // nobody is preserved any more
        fixture.settle();
        assert_converged(&fixture);
    }
}
