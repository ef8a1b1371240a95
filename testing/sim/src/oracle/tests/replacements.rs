use super::*;

/// Two unhealthy machines, and a third in this phase.
fn unhealthy(third: &str) -> Story {
    let mut story = Story::begin();
    for (name, phase) in [("a", "Unknown"), ("b", "Unknown"), ("c", third)] {
        story.write(Author::Us, MACHINES, name, None, Some(&machine(phase, false)));
    }
    story.see();
    story
}

fn fail(story: &mut Story, name: &str, process: u64) -> Option<Invariant> {
    story.revision += 1;
    story.seconds += 1;
    let (before, after) = (machine("Unknown", false), machine("Failed", false));
    let writer = Some(Writer { process, component: WritingComponent::Machines });
    let (revision, before, after) = (story.revision, Some(&before), Some(&after));
    let write = Write { kind: MACHINES, name, revision, before, after, by: Author::Us, writer };
    story.oracle.written(story.now(), &write);
    story.wrong()
}

#[test]
fn one_machine_is_replaced_at_a_time() {
    assert_eq!(fail(&mut unhealthy("Running"), "a", 1), None);
    assert_eq!(fail(&mut unhealthy("Pending"), "a", 1), Some(Invariant::Replacements));
    let mut story = unhealthy("Running");
    fail(&mut story, "a", 1);
    assert_eq!(fail(&mut story, "b", 1), Some(Invariant::Replacements), "a process knows its own writes");
}

#[test]
fn replacement_counts_when_it_is_shown() {
    let mut other = unhealthy("Running");
    fail(&mut other, "a", 1);
    assert_eq!(fail(&mut other, "b", 2), None, "no watch has shown it to the other process");
    let mut lost = unhealthy("Running");
    fail(&mut lost, "a", 1);
    lost.oracle.hindered(lost.now());
    assert_eq!(fail(&mut lost, "b", 1), None, "the answer may be lost");
    let mut shown = unhealthy("Running");
    fail(&mut shown, "a", 1);
    shown.see();
    assert_eq!(fail(&mut shown, "b", 2), Some(Invariant::Replacements));
}
