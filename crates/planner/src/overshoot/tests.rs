use std::cell::Cell;

use api::names;
use json_patch::merge;
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn deployment(replicas: i32, strategy: &Value) -> MachineDeployment {
    read(json!({ "metadata": { "name": "md", "uid": "u-md" }, "spec": { "replicas": replicas, "strategy": strategy } }))
}

fn set(name: &str, replicas: i32) -> MachineSet {
    read(json!({ "metadata": { "name": name, "uid": format!("u-{name}") }, "spec": { "replicas": replicas } }))
}

fn rolling(surge: impl Into<Value>) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge.into(), "maxUnavailable": 1 } })
}

thread_local! {
    /// Number of lookups of a MachineSet's MachineDeployment.
    pub(super) static LOOKUPS: Cell<usize> = const { Cell::new(0) };
}

/// Some objects, and an API server that merges patches.
struct OvershootFixture {
    deployment: Option<MachineDeployment>,
    sets: Vec<(MachineSet, i32)>,
    /// Number of Machines of each MachineSet that are being deleted.
    deleting: i32,
    policy: Policy,
    events: Vec<String>,
}

impl OvershootFixture {
    fn new(deployment: Option<MachineDeployment>, sets: Vec<(MachineSet, i32)>) -> Self {
        Self { deployment, sets, deleting: 0, policy: Policy::default(), events: Vec::new() }
    }

    /// The same, without counting Machines that are being deleted.
    fn ignoring_deleting_machines(mut self) -> Self {
        self.policy.deployment.overshoot_count = OvershootCount::NotDeleting;
        self
    }

    fn plan(&self) -> Vec<Step> {
        let sets: Vec<SeenSet<'_>> = self
            .sets
            .iter()
            .map(|(set, machines)| SeenSet {
                set,
                deployment: self.deployment.as_ref(),
                machines: *machines,
                deleting: self.deleting,
            })
            .collect();
        let deployments: Vec<&MachineDeployment> = self.deployment.iter().collect();
        plan(&Observed { sets: &sets, deployments: &deployments, policy: &self.policy, now: NOW.parse().unwrap() })
    }

    fn reconcile(&mut self) -> Vec<Step> {
        self.reconcile_until(usize::MAX)
    }

    /// A reconcile that ends after this number of steps.
    fn reconcile_until(&mut self, end: usize) -> Vec<Step> {
        let steps = self.plan();
        for step in steps.iter().take(end) {
            match step {
                Step::Write(edit) if edit.kind == Kind::Set => {
                    let (set, _) = self.sets.iter_mut().find(|(set, _)| set.name() == edit.name).unwrap();
                    *set = patched(set, &edit.changes);
                }
                Step::Write(edit) => {
                    let after = patched(self.deployment.as_ref().unwrap(), &edit.changes);
                    self.deployment = Some(after);
                }
                Step::EmitEvent { event, .. } => self.events.push(event.message.clone()),
            }
        }
        steps
    }

    fn frozen(&self) -> Vec<bool> {
        self.sets.iter().map(|(set, _)| is_labelled(set) && has_condition(set)).collect()
    }

    fn deployment_frozen(&self) -> (bool, Option<&str>) {
        let deployment = self.deployment.as_ref().unwrap();
        let condition = deployment.status.conditions.iter().find(|condition| condition.kind == words::FROZEN);
        (deployment.label(labels::FREEZE) == Some("True"), condition.map(|condition| condition.reason.as_str()))
    }
}

fn patched<T: serde::Serialize + DeserializeOwned>(object: &T, changes: &Value) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, changes);
    read(value)
}

/// Shows MS-W13.
#[rstest]
#[case::rolling(3, rolling(1), 6, 5)]
#[case::percent(4, rolling("50%"), 8, 7)]
#[case::recreate(3, json!({ "type": "Recreate" }), 5, 4)]
#[case::in_place(3, json!({ "type": "InPlaceUpdate", "inPlaceUpdate": { "maxSurge": 2, "maxUnavailable": 1, "orchestrationType": "Manual" } }), 7, 6)]
#[case::invalid(3, json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "many" } }), 5, 4)]
fn set_freezes_at_the_upper_and_unfreezes_at_the_lower_limit(
    #[case] replicas: i32,
    #[case] strategy: Value,
    #[case] upper: i32,
    #[case] lower: i32,
) {
    let mut fixture =
        OvershootFixture::new(Some(deployment(replicas, &strategy)), vec![(set("s", replicas), upper - 1)]);
    assert_eq!(fixture.plan(), []);
    fixture.sets[0].1 = upper;
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true]);
    assert_eq!(fixture.deployment_frozen(), (true, Some("OverShootingReplicaCount")));
    let message =
        format!("The number of machines backing MachineSet: s is {upper} >= {upper} which is the Max-ScaleUp-Limit");
    assert_eq!(fixture.sets[0].0.status.conditions[0].message, message);
    assert_eq!(fixture.plan(), [], "written once");
    fixture.sets[0].1 = lower;
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [false]);
    assert_eq!(fixture.deployment_frozen(), (false, None));
    assert_eq!(fixture.events, [messages::froze("s"), messages::unfroze("s")]);
    assert_eq!(fixture.plan(), []);
}

#[test]
fn limit_of_a_set_without_deployment_is_twice_its_replicas() {
    let mut fixture = OvershootFixture::new(None, vec![(set("s", 3), 7)]);
    assert_eq!(fixture.plan(), []);
    fixture.sets[0].1 = 8;
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true]);
}

/// Shows MS-W13.
#[test]
fn rapid_scale_down_freezes_the_set_until_machines_are_gone() {
    let mut fixture = OvershootFixture::new(Some(deployment(2, &rolling(2))), vec![(set("s", 2), 6)]);
    fixture.deployment.as_mut().unwrap().metadata.generation = 2; // not observed yet
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true], "six Machines; the limit is two more than four");
    fixture.deleting = 4;
    assert_eq!(fixture.plan(), [], "Machines that are being deleted are counted");
    (fixture.sets[0].1, fixture.deleting) = (5, 3);
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [false]);
    assert_eq!(fixture.events, [messages::froze("s"), messages::unfroze("s")]);
}

/// Shows MS-R19.
#[test]
fn rapid_scale_down_does_not_freeze_with_not_deleting() {
    let of = |generation, observed| {
        let mut fixture = OvershootFixture::new(None, vec![(set("s", 2), 50)]).ignoring_deleting_machines();
        fixture.sets[0].0.metadata.generation = generation;
        fixture.sets[0].0.status.observed_generation = observed;
        fixture
    };
    assert_eq!(of(2, 1).plan(), [], "its controller has not observed the change");
    let mut fixture = of(2, 2);
    fixture.deleting = 48;
    assert_eq!(fixture.plan(), [], "the surplus is being deleted");
    fixture.deleting = 0;
    assert!(!fixture.plan().is_empty(), "observed, and the surplus still exists");
    let mut fixture =
        OvershootFixture::new(Some(deployment(2, &rolling(1))), vec![(set("s", 50), 50)]).ignoring_deleting_machines();
    fixture.deployment.as_mut().unwrap().metadata.generation = 2;
    assert_eq!(fixture.plan(), []);
}

/// Shows MS-W13.
#[test]
fn each_set_is_checked_once() {
    let deployments: Vec<MachineDeployment> = (0..100)
        .map(|n| {
            let mut one = deployment(3, &rolling(1));
            one.metadata.uid = format!("u-md-{n}").into();
            one.metadata.annotations = (n % 2 == 0).then_some((annotations::UNFREEZE, "")).into_iter().collect();
            one
        })
        .collect();
    let sets: Vec<MachineSet> = (0..100).map(|n| set(&format!("s-{n}"), 3)).collect();
    let seen: Vec<SeenSet<'_>> = sets
        .iter()
        .zip(&deployments)
        .map(|(set, owner)| SeenSet { set, deployment: Some(owner), machines: 6, deleting: 0 })
        .collect();
    let all: Vec<&MachineDeployment> = deployments.iter().collect();
    LOOKUPS.with(|lookups| lookups.set(0));
    let policy = Policy::default();
    let steps = plan(&Observed { sets: &seen, deployments: &all, policy: &policy, now: NOW.parse().unwrap() });
    let frozen =
        |step: &&Step| matches!(step, Step::Write(edit) if edit.kind == Kind::Deployment && edit.part == Part::Status);
    assert_eq!(steps.iter().filter(frozen).count(), 50, "each MachineDeployment is frozen with its own MachineSet");
    assert_eq!(LOOKUPS.with(Cell::get), 100);
}

/// Shows MS-W13.
#[test]
fn all_sets_are_checked_in_one_reconcile() {
    let mut fixture = OvershootFixture::new(None, vec![(set("a", 1), 9), (set("b", 1), 9), (set("c", 1), 1)]);
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true, true, false]);
}

#[test]
fn condition_is_written_before_the_label() {
    let fixture = OvershootFixture::new(None, vec![(set("a", 1), 9)]);
    let parts: Vec<Part> = fixture
        .plan()
        .iter()
        .filter_map(|step| if let Step::Write(edit) = step { Some(edit.part) } else { None })
        .collect();
    assert_eq!(parts, [Part::Status, Part::Metadata]);
}

/// Shows MD-D25.
#[test]
fn deployment_is_frozen_with_its_sets() {
    let mut frozen = set("s", 3);
    frozen.metadata.labels = [(labels::FREEZE, "True")].into();
    let mut fixture = OvershootFixture::new(Some(deployment(3, &rolling(1))), vec![(frozen, 6)]);
    fixture.sets[0].0.status.conditions = vec![read(json!({ "type": "Frozen", "status": "True" }))];
    fixture.reconcile();
    assert_eq!(fixture.deployment_frozen(), (true, Some("MachineDeploymentStateSync")));
    fixture.sets.clear();
    fixture.reconcile();
    assert_eq!(fixture.deployment_frozen(), (false, None));
}

#[test]
fn incomplete_freeze_marks_are_completed() {
    let mut labelled = set("a", 1);
    labelled.metadata.labels = [(labels::FREEZE, "True")].into();
    let mut stated = set("b", 1);
    stated.status.conditions = vec![read(json!({ "type": "Frozen", "status": "True" }))];
    let mut fixture = OvershootFixture::new(None, vec![(labelled, 9), (stated, 9)]);
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true, true]);
    assert_eq!(fixture.plan(), []);
}

/// A process that exits between two writes, or a manual change, may leave a label without its condition or a condition
/// without its label.
#[rstest]
fn incomplete_freeze_marks_are_completed_or_removed(
    #[values(false, true)] set_label: bool,
    #[values(false, true)] set_condition: bool,
    #[values(false, true)] label: bool,
    #[values(false, true)] condition: bool,
    #[values(4, 5, 6)] machines: i32,
) {
    let marked = |label: bool| label.then_some((labels::FREEZE, "True")).into_iter().collect();
    // A condition of another type always exists and is no freeze mark.
    let stated = |condition: bool| json!([{ "type": if condition { "Frozen" } else { "Other" }, "status": "True" }]);
    let (mut owner, mut child) = (deployment(3, &rolling(1)), set("s", 3));
    (owner.metadata.labels, child.metadata.labels) = (marked(label), marked(set_label));
    (owner.status.conditions, child.status.conditions) = (read(stated(condition)), read(stated(set_condition)));
    let mut fixture = OvershootFixture::new(Some(owner), vec![(child, machines)]);
    fixture.policy.deployment.safety_down = 2; // frozen at 6, unfrozen at 4, unchanged at 5
    fixture.reconcile();

    let (set, _) = &fixture.sets[0];
    let (of_set, of_deployment) = ((is_labelled(set), has_condition(set)), fixture.deployment_frozen());
    let of_deployment = (of_deployment.0, of_deployment.1.is_some());
    match machines {
        6 => assert_eq!((of_set, of_deployment), ((true, true), (true, true))),
        4 => assert_eq!((of_set, of_deployment), ((false, false), (false, false))),
        _ => {
            assert_eq!(of_set, (set_label, set_condition), "unchanged");
            let frozen = set_label || set_condition;
            assert_eq!(of_deployment, (frozen, frozen), "same as its MachineSet");
        }
    }
    assert_eq!(fixture.plan(), [], "written once");
}

/// The annotation stays on the MachineDeployment until the MachineSet has it, whichever freeze mark the MachineSet has.
#[rstest]
#[case::the_label(true, false)]
#[case::the_condition(false, true)]
fn unfreeze_annotation_stays_until_a_partly_frozen_set_has_it(#[case] label: bool, #[case] condition: bool) {
    let (mut owner, mut child) = (deployment(3, &rolling(1)), set("s", 3));
    owner.metadata.annotations = [(names::annotations::UNFREEZE, "")].into();
    child.metadata.labels = label.then_some((labels::FREEZE, "True")).into_iter().collect();
    if condition {
        child.status.conditions = vec![read(json!({ "type": "Frozen", "status": "True" }))];
    }
    let mut fixture = OvershootFixture::new(Some(owner), vec![(child, 5)]);
    fixture.policy.deployment.safety_down = 2;
    let steps: Vec<String> = fixture.reconcile().iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["copy the unfreeze annotation to MachineSet \"s\""]);
    assert!(fixture.deployment.as_ref().unwrap().annotation(names::annotations::UNFREEZE).is_some());
    let steps: Vec<String> = fixture.reconcile().iter().map(ToString::to_string).collect();
    let (event, unfreeze) = ("emit Event UnfrozeMachineSet".to_owned(), "unfreeze MachineSet \"s\"".to_owned());
    assert!(steps.contains(&event) && steps.contains(&unfreeze), "{steps:?}");
    assert!(steps.contains(&"unfreeze MachineDeployment \"md\"".to_owned()), "{steps:?}");
}

#[test]
fn user_unfreezes_a_deployment_and_all_its_sets() {
    let mut fixture = OvershootFixture::new(Some(deployment(3, &rolling(1))), vec![(set("a", 3), 6), (set("b", 3), 6)]);
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true, true]);
    for (_, machines) in &mut fixture.sets {
        *machines = 5;
    }
    // Between the limits, nothing is unfrozen automatically.
    fixture.sets[0].1 = 6;
    fixture.sets[1].1 = 6;
    let unfreeze = TextMap::from([(names::annotations::UNFREEZE, "")]);
    fixture.deployment.as_mut().unwrap().metadata.annotations = unfreeze;
    fixture.reconcile();
    fixture.reconcile();
    assert_eq!(fixture.deployment_frozen(), (false, None));
    fixture.sets[0].1 = 5;
    fixture.sets[1].1 = 5;
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [false, false]);
    assert!(fixture.sets.iter().all(|(set, _)| set.annotation(names::annotations::UNFREEZE).is_none()));
    assert_eq!(fixture.plan(), []);
}

/// The reconcile may end because of a crash, a lost lease or a conflicting write.
#[test]
fn unfreeze_continues_after_a_reconcile_ends_at_any_step() {
    for first in 0..8 {
        for second in 0..8 {
            let mut fixture =
                OvershootFixture::new(Some(deployment(3, &rolling(1))), vec![(set("a", 3), 6), (set("b", 3), 6)]);
            fixture.reconcile();
            let unfreeze = TextMap::from([(names::annotations::UNFREEZE, "")]);
            fixture.deployment.as_mut().unwrap().metadata.annotations = unfreeze;
            fixture.reconcile_until(first);
            fixture.reconcile_until(second);
            // Meanwhile each MachineSet has lost a Machine, so that it does not freeze again.
            fixture.sets.iter_mut().for_each(|(_, machines)| *machines = 5);
            (0..4).for_each(|_| drop(fixture.reconcile()));
            assert_eq!((fixture.deployment_frozen(), fixture.frozen()), ((false, None), vec![false, false]));
            let is_done = |annotations: &TextMap| !annotations.contains_key(names::annotations::UNFREEZE);
            assert!(is_done(&fixture.deployment.as_ref().unwrap().metadata.annotations), "after {first} and {second}");
            assert!(fixture.sets.iter().all(|(set, _)| is_done(&set.metadata.annotations)));
            assert_eq!(fixture.plan(), []);
        }
    }
}

/// The number of Machines is unchanged, so that only the annotation can unfreeze them.
/// Shows MS-W13.
#[test]
fn unfreeze_reaches_every_set_when_reconciles_are_interrupted() {
    for end in 0..8 {
        let mut fixture =
            OvershootFixture::new(Some(deployment(3, &rolling(1))), vec![(set("a", 3), 6), (set("b", 3), 6)]);
        fixture.reconcile();
        fixture.events.clear();
        let unfreeze = TextMap::from([(names::annotations::UNFREEZE, "")]);
        fixture.deployment.as_mut().unwrap().metadata.annotations = unfreeze;
        fixture.reconcile_until(end);
        (0..3).for_each(|_| drop(fixture.reconcile()));
        for name in ["a", "b"] {
            let unfrozen = messages::unfroze(name);
            assert!(
                fixture.events.contains(&unfrozen),
                "{name} was not unfrozen after {end} steps: {:?}",
                fixture.events
            );
        }
    }
}

#[test]
fn unfrozen_set_that_is_still_too_large_freezes_again() {
    let mut fixture = OvershootFixture::new(None, vec![(set("a", 1), 9)]);
    fixture.reconcile();
    fixture.sets[0].0.metadata.annotations = [(names::annotations::UNFREEZE, "")].into();
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [false]);
    fixture.reconcile();
    assert_eq!(fixture.frozen(), [true]);
}

#[test]
fn foreign_conditions_and_labels_are_kept() {
    let mut other = set("a", 1);
    other.metadata.labels = [("team", "blue")].into();
    other.status.conditions =
        vec![read(json!({ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate" }))];
    let mut fixture = OvershootFixture::new(None, vec![(other, 9)]);
    fixture.reconcile();
    fixture.sets[0].1 = 0;
    fixture.reconcile();
    let (set, _) = &fixture.sets[0];
    assert_eq!((set.label("team"), set.status.conditions.len()), (Some("blue"), 1));
}
