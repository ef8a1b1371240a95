//! The cluster-autoscaler's list of Machines to delete.

use api::names::annotations::{LAST_REPLICA_CHANGE_BY_SCALER, MARKED_FOR_DELETION_TIME, PRIORITY, TRIGGER_DELETION};
use api::{MachinePhase, Object};

use super::super::*;
use super::fixture::{BEGIN, DeploymentFixture, rolling};

const ASKED: &str = "2026-01-01T00:10:00Z";

fn listed(fixture: &DeploymentFixture) -> Option<&str> {
    fixture.deployment.annotation(TRIGGER_DELETION)
}

/// What the cluster-autoscaler writes in one update.
fn scale_down(fixture: &mut DeploymentFixture, names: &[&str]) {
    let entries: Vec<String> = names.iter().map(|name| format!("{name}~{ASKED}")).collect();
    fixture.annotate(TRIGGER_DELETION, &entries.join(","));
    fixture.annotate(LAST_REPLICA_CHANGE_BY_SCALER, ASKED);
    let less = i32::try_from(names.len()).unwrap();
    fixture.edit(|deployment| deployment.spec.replicas -= less);
}

/// Shows MD-S19.
#[test]
fn exactly_the_named_machines_are_deleted() {
    let mut fixture = DeploymentFixture::settled(5, &rolling(1, 0));
    let names: Vec<String> = fixture.machines.keys().cloned().collect();
    scale_down(&mut fixture, &[&names[1], &names[3]]);
    let plan = fixture.reconcile();
    let marked = plan.steps.iter().position(|step| matches!(step, Step::Machine(_))).unwrap();
    let shrunk = plan.steps.iter().position(|step| matches!(step, Step::Set(_))).unwrap();
    assert!(marked < shrunk, "Machines are marked before a MachineSet is scaled down");
    assert_eq!(fixture.machines[&names[1]].annotation(PRIORITY), Some("1"));
    assert_eq!(fixture.machines[&names[1]].annotation(MARKED_FOR_DELETION_TIME), Some(ASKED));
    assert_eq!(fixture.set_of("small").annotation(LAST_REPLICA_CHANGE_BY_SCALER), Some(ASKED));
    fixture.run_sets();
    let left: Vec<&String> = fixture.machines.iter().filter(|(_, m)| !m.is_deleting()).map(|(name, _)| name).collect();
    assert_eq!(left, [&names[0], &names[2], &names[4]]);
    fixture.reconcile();
    assert_eq!(listed(&fixture), None, "the cluster-autoscaler keeps listed Nodes cordoned");
    fixture.settle();
    assert_eq!(fixture.live(), 3);
}

#[test]
fn name_without_time_gets_the_time_of_the_request() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let names: Vec<String> = fixture.machines.keys().cloned().collect();
    fixture.annotate(TRIGGER_DELETION, &format!("{},{}~a~b,{}~nonsense", names[0], names[1], names[1]));
    fixture.annotate(LAST_REPLICA_CHANGE_BY_SCALER, ASKED);
    fixture.reconcile();
    assert_eq!(listed(&fixture), Some(format!("{}~{ASKED}", names[0]).as_str()));
}

#[test]
fn only_named_machines_are_marked() {
    let fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let names: Vec<String> = fixture.machines.keys().cloned().collect();
    let both = format!("{}~{ASKED},{}~{ASKED}", names[0], names[1]);
    let corpus = [both.as_str(), &names[0], "~", ",,", "m~2026-01-01T00:10:00Z~"];
    fuzz::fuzz(&corpus.map(str::as_bytes), |input| {
        let list = String::from_utf8_lossy(input).into_owned();
        let mut fixture = fixture.clone();
        fixture.annotate(TRIGGER_DELETION, &list);
        fixture.reconcile();
        let marked = fixture.machines.iter().filter(|(_, machine)| machine.annotation(PRIORITY) == Some("1"));
        for (name, _) in marked {
            assert!(list.contains(name.as_str()), "{name} is not in {list:?}");
        }
    });
}

/// Shows MD-D21.
#[test]
fn missing_time_of_the_request_is_recorded_once() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.machines.keys().next().unwrap().clone();
    fixture.annotate(TRIGGER_DELETION, &format!("{name}~{BEGIN}"));
    fixture.reconcile();
    assert_eq!(fixture.deployment.annotation(LAST_REPLICA_CHANGE_BY_SCALER), Some(BEGIN));
    fixture.later(5);
    fixture.reconcile();
    fixture.later(5);
    let writes = fixture.plan().steps;
    assert!(writes.is_empty(), "{writes:#?}");
}

/// Shows MD-D21.
#[test]
fn deleted_and_foreign_machines_are_removed_from_the_list() {
    let mut fixture = DeploymentFixture::settled(4, &rolling(1, 0));
    let names: Vec<String> = fixture.machines.keys().cloned().collect();
    fixture.delete_machine(&names[0]);
    fixture.set_phase(&names[1], MachinePhase::Failed);
    fixture.machines.get_mut(&names[2]).unwrap().metadata.owner_references = Vec::new();
    let list: Vec<String> =
        names.iter().map(|name| format!("{name}~{ASKED}")).chain([format!("gone~{ASKED}")]).collect();
    fixture.annotate(TRIGGER_DELETION, &list.join(","));
    fixture.reconcile();
    assert_eq!(listed(&fixture), Some(list[3].as_str()));
    assert_eq!(fixture.machines[&names[2]].annotation(PRIORITY), None, "a foreign Machine is not marked");
}

/// Shows MD-D21.
#[test]
fn machine_missing_in_the_cache_is_looked_up_first() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    scale_down(&mut fixture, &["unseen"]);
    let sets: Vec<SeenSet<'_>> = fixture
        .sets
        .values()
        .map(|set| SeenSet { set, machines: fixture.machines_of(set).collect(), unseen: 0 })
        .collect();
    let named = [("unseen".to_owned(), Named::NotCached)].into();
    let plan = fixture.observe(|seen| plan(&Observed { sets: &sets, named: &named, ..*seen }));
    assert_eq!(plan.steps, [Step::LookUpMachines(vec!["unseen".to_owned()])]);
}

/// Shows MD-S20.
#[test]
fn names_are_trimmed_and_invalid_entries_reported() {
    let mut fixture = DeploymentFixture::settled(3, &rolling(1, 0));
    let names: Vec<String> = fixture.machines.keys().cloned().collect();
    let list = format!(" {} ~ {ASKED} , no such,<x>,A\u{1b},../nodes, {}", names[0], names[1]);
    fixture.annotate(TRIGGER_DELETION, &list);
    fixture.annotate(LAST_REPLICA_CHANGE_BY_SCALER, ASKED);
    let plan = fixture.reconcile();
    assert_eq!(listed(&fixture), Some(format!("{}~{ASKED},{}~{ASKED}", names[0], names[1]).as_str()));
    assert_eq!(fixture.machines[&names[0]].annotation(PRIORITY), Some("1"));
    assert_eq!(fixture.machines[&names[1]].annotation(PRIORITY), Some("1"));
    let events: Vec<_> = plan
        .steps
        .iter()
        .filter_map(|step| if let Step::EmitEvent(event) = step { Some(event) } else { None })
        .collect();
    let [event] = events[..] else { panic!("{events:?}") };
    assert_eq!((event.event_type, event.reason), (crate::EventType::Warning, "DeletionRequestInvalid"));
    assert_eq!(
        event.message,
        "removed entries from the annotation node.machine.sapcloud.io/trigger-deletion-by-mcm that are no Machine names: \
         \"no such\", \"<x>\", \"A\\u{1b}\" and 1 more; write Machine names separated by commas"
    );
    let plan = fixture.reconcile();
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::EmitEvent(_))), "it is reported once");
}

/// Shows MD-S20.
#[test]
fn machine_that_is_named_twice_is_marked_once() {
    let mut fixture = DeploymentFixture::settled(2, &rolling(1, 0));
    let name = fixture.machines.keys().next().unwrap().clone();
    fixture.annotate(TRIGGER_DELETION, &[name.as_str(); 50].join(","));
    fixture.annotate(LAST_REPLICA_CHANGE_BY_SCALER, ASKED);
    let plan = fixture.reconcile();
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::Machine(_))).count(), 1);
    assert_eq!(listed(&fixture), Some(format!("{name}~{ASKED}").as_str()));
}

/// Shows MD-S20.
#[rstest::rstest]
#[case("m", true)]
#[case("m-1.pool.example", true)]
#[case("", false)]
#[case("M", false)]
#[case("a b", false)]
#[case("<x>", false)]
#[case("a/b", false)]
#[case("..", false)]
#[case("-a", false)]
#[case("a.", false)]
#[case("é", false)]
fn machines_named_are_those_with_a_valid_name(#[case] name: &str, #[case] expected: bool) {
    let mut fixture = DeploymentFixture::settled(1, &rolling(1, 0));
    fixture.annotate(TRIGGER_DELETION, name);
    assert_eq!(machines_named(&fixture.deployment).len(), usize::from(expected));
}
