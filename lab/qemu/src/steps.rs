//! What is left to do, from what is seen.
//!
//! A process may be killed between any two steps, and the next one knows only what the kernel and the machine's directory show. So no step is
//! remembered. The directory is made first and removed last, so whatever else exists of a machine, its name is listed.

use lab_host_common::process::Process;
use lab_host_common::state::Directory;

/// What there is of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) directory: Directory,
    pub(crate) disk: Disk,
    /// The process with the machine's id.
    pub(crate) running: Option<Process>,
    /// The one that was written down, once all of the machine was there.
    pub(crate) noted: Option<Process>,
}

/// The overlay of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Absent,
    Present,
}

/// One thing to do. Each may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Take what it may use from the budget, make directory and seed, write the record.
    Reserve,
    MakeDisk,
    Start,
    /// Write the process down: the machine is made.
    Note,
    Kill,
    RemoveDirectory,
}

/// The next step towards a machine that runs; `None` when it does.
#[must_use]
pub(crate) fn to_create(seen: &Seen) -> Option<Step> {
    match (seen.directory, seen.disk, seen.running) {
        // Somebody removed files under a machine that runs. What it works on is gone.
        (Directory::Absent | Directory::Unfinished, _, Some(_)) | (_, Disk::Absent, Some(_)) => Some(Step::Kill),
        (Directory::Absent | Directory::Unfinished, _, None) => Some(Step::Reserve),
        (Directory::Complete, Disk::Absent, None) => Some(Step::MakeDisk),
        (Directory::Complete, Disk::Present, None) => Some(Step::Start),
        (Directory::Complete, Disk::Present, running) => (running != seen.noted).then_some(Step::Note),
    }
}

/// The next step towards nothing; `None` when nothing is left.
#[must_use]
pub(crate) fn to_delete(seen: &Seen) -> Option<Step> {
    if seen.running.is_some() {
        Some(Step::Kill)
    } else if seen.directory != Directory::Absent {
        Some(Step::RemoveDirectory)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Process = Process { pid: 7, start_time: 100 };
    const NEW: Process = Process { pid: 7, start_time: 200 };
    const NOTHING: Seen = Seen { directory: Directory::Absent, disk: Disk::Absent, running: None, noted: None };

    /// What the host does.
    fn carry_out(step: Step, seen: &mut Seen) {
        match step {
            Step::Reserve => seen.directory = Directory::Complete,
            Step::MakeDisk => {
                assert_eq!(seen.running, None, "a disk was made under a machine that runs");
                seen.disk = Disk::Present;
            }
            Step::Start => {
                assert_eq!(seen.running, None, "two processes for one machine");
                seen.running = Some(NEW);
            }
            Step::Note => seen.noted = seen.running,
            Step::Kill => seen.running = None,
            Step::RemoveDirectory => {
                assert_eq!(seen.running, None, "files were removed under a machine that runs");
                *seen = NOTHING;
            }
        }
    }

    fn play(mut seen: Seen, next: fn(&Seen) -> Option<Step>) -> (Seen, Vec<Step>) {
        let mut steps = Vec::new();
        while let Some(step) = next(&seen) {
            steps.push(step);
            assert!(steps.len() < 20, "it never ends: {steps:?}");
            carry_out(step, &mut seen);
        }
        (seen, steps)
    }

    /// Every state that can be seen, also those that no order of steps leads to.
    fn all() -> Vec<Seen> {
        let mut all = Vec::new();
        for directory in [Directory::Absent, Directory::Unfinished, Directory::Complete] {
            for disk in [Disk::Absent, Disk::Present] {
                for running in [None, Some(OLD), Some(NEW)] {
                    for noted in [None, Some(OLD), Some(NEW)] {
                        all.push(Seen { directory, disk, running, noted });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn a_virtual_machine_is_made_and_removed_in_this_order() {
        let (made, steps) = play(NOTHING, to_create);
        assert_eq!(steps, [Step::Reserve, Step::MakeDisk, Step::Start, Step::Note]);
        let (gone, steps) = play(made, to_delete);
        assert_eq!((gone, steps), (NOTHING, vec![Step::Kill, Step::RemoveDirectory]));
    }

    /// Shows HST-22.
    #[test]
    fn from_every_state_a_create_ends_with_a_virtual_machine_that_runs_and_is_written_down() {
        for seen in all() {
            let (made, _) = play(seen.clone(), to_create);
            assert!(made.running.is_some() && made.noted == made.running, "{seen:?} became {made:?}");
            assert_eq!((made.directory, made.disk), (Directory::Complete, Disk::Present));
        }
    }

    /// Shows HST-22.
    #[test]
    fn from_every_state_a_delete_leaves_nothing_of_a_virtual_machine() {
        for seen in all() {
            let (gone, _) = play(seen.clone(), to_delete);
            assert_eq!((gone.directory, gone.running), (Directory::Absent, None), "{seen:?}");
        }
    }

    /// Shows HST-22.
    #[test]
    fn a_process_that_was_started_and_not_written_down_is_the_machine_s() {
        let (made, _) = play(NOTHING, to_create);
        assert_eq!(to_create(&Seen { noted: None, ..made.clone() }), Some(Step::Note));
        assert_eq!(to_create(&Seen { noted: Some(OLD), ..made }), Some(Step::Note));
    }

    /// Shows HST-24.
    #[test]
    fn a_virtual_machine_that_was_switched_off_is_started_again_on_its_disk() {
        let (made, _) = play(NOTHING, to_create);
        let (_, steps) = play(Seen { running: None, ..made }, to_create);
        assert_eq!(steps, [Step::Start]);
    }
}
