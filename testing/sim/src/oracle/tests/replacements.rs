use super::*;

/// Two unhealthy machines, and a third in this phase.
fn unhealthy(third: &str) -> Scenario {
    let mut scenario = Scenario::new();
    for (name, phase) in [("a", "Unknown"), ("b", "Unknown"), ("c", third)] {
        scenario.write(Author::Controllers, MACHINES, name, None, Some(&machine(phase, false)));
    }
    scenario.show_all();
    scenario
}

fn fail(scenario: &mut Scenario, name: &str, process: u64) -> Option<Invariant> {
    scenario.revision += 1;
    scenario.seconds += 1;
    let (before, after) = (machine("Unknown", false), machine("Failed", false));
    let writer = Some(Writer { process, component: WritingComponent::Machines });
    let (revision, before, after) = (scenario.revision, Some(&before), Some(&after));
    let write = Write { kind: MACHINES, name, revision, before, after, by: Author::Controllers, writer };
    scenario.oracle.written(scenario.now(), &write);
    scenario.violation()
}

#[test]
fn one_machine_is_replaced_at_a_time() {
    assert_eq!(fail(&mut unhealthy("Running"), "a", 1), None);
    assert_eq!(fail(&mut unhealthy("Pending"), "a", 1), Some(Invariant::Replacements));
    let mut scenario = unhealthy("Running");
    fail(&mut scenario, "a", 1);
    assert_eq!(fail(&mut scenario, "b", 1), Some(Invariant::Replacements), "a process knows its own writes");
}

#[test]
fn replacement_counts_once_delivered() {
    let mut other = unhealthy("Running");
    fail(&mut other, "a", 1);
    assert_eq!(fail(&mut other, "b", 2), None, "the watch has not delivered it to the other process");
    let mut lost = unhealthy("Running");
    fail(&mut lost, "a", 1);
    lost.oracle.obstructed(lost.now());
    assert_eq!(fail(&mut lost, "b", 1), None, "the response may be lost");
    let mut shown = unhealthy("Running");
    fail(&mut shown, "a", 1);
    shown.show_all();
    assert_eq!(fail(&mut shown, "b", 2), Some(Invariant::Replacements));
}
