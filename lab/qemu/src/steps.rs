//! Derives the remaining steps from the observed state.
//!
//! A process may be killed between any two steps, and the next one knows only the state of the kernel and the machine's
//! directory. So no step is stored. The directory is created first and removed last, so a machine is listed as long as
//! any part of it exists.

use lab_host_common::process::Process;
use lab_host_common::state::Directory;

/// The observed state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) directory: Directory,
    pub(crate) disk: Disk,
    /// The process with the machine's UUID.
    pub(crate) running: Option<Process>,
    /// The recorded process, written when the machine was complete.
    pub(crate) noted: Option<Process>,
}

/// The overlay of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    Absent,
    Present,
}

/// A step. Each can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reserves capacity, creates directory and seed, writes the record.
    Reserve,
    MakeDisk,
    Start,
    /// Records the process: the machine is complete.
    Note,
    Kill,
    RemoveDirectory,
}

/// Returns the next step towards a running machine; `None` if it runs.
#[must_use]
pub(crate) fn to_create(seen: &Seen) -> Option<Step> {
    match (seen.directory, seen.disk, seen.running) {
        // Files of a running machine were removed by another program.
        (Directory::Absent | Directory::Unfinished, _, Some(_)) | (_, Disk::Absent, Some(_)) => Some(Step::Kill),
        (Directory::Absent | Directory::Unfinished, _, None) => Some(Step::Reserve),
        (Directory::Complete, Disk::Absent, None) => Some(Step::MakeDisk),
        (Directory::Complete, Disk::Present, None) => Some(Step::Start),
        (Directory::Complete, Disk::Present, running) => (running != seen.noted).then_some(Step::Note),
    }
}

/// Returns the next step of a deletion; `None` if nothing is left.
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

    /// Simulates the host.
    fn carry_out(step: Step, seen: &mut Seen) {
        match step {
            Step::Reserve => seen.directory = Directory::Complete,
            Step::MakeDisk => {
                assert_eq!(seen.running, None, "the disk of a running machine must not be created");
                seen.disk = Disk::Present;
            }
            Step::Start => {
                assert_eq!(seen.running, None, "a machine must have one process");
                seen.running = Some(NEW);
            }
            Step::Note => seen.noted = seen.running,
            Step::Kill => seen.running = None,
            Step::RemoveDirectory => {
                assert_eq!(seen.running, None, "files of a running machine must not be removed");
                *seen = NOTHING;
            }
        }
    }

    fn play(mut seen: Seen, next: fn(&Seen) -> Option<Step>) -> (Seen, Vec<Step>) {
        let mut steps = Vec::new();
        while let Some(step) = next(&seen) {
            steps.push(step);
            assert!(steps.len() < 20, "too many steps: {steps:?}");
            carry_out(step, &mut seen);
        }
        (seen, steps)
    }

    /// Returns all states, including unreachable ones.
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
    fn a_virtual_machine_is_created_and_deleted_in_order() {
        let (made, steps) = play(NOTHING, to_create);
        assert_eq!(steps, [Step::Reserve, Step::MakeDisk, Step::Start, Step::Note]);
        let (gone, steps) = play(made, to_delete);
        assert_eq!((gone, steps), (NOTHING, vec![Step::Kill, Step::RemoveDirectory]));
    }

    /// Shows HST-22.
    #[test]
    fn a_create_results_in_a_running_vm_from_every_state() {
        for seen in all() {
            let (made, _) = play(seen.clone(), to_create);
            assert!(made.running.is_some() && made.noted == made.running, "{seen:?} became {made:?}");
            assert_eq!((made.directory, made.disk), (Directory::Complete, Disk::Present));
        }
    }

    /// Shows HST-22.
    #[test]
    fn a_delete_removes_a_virtual_machine_from_every_state() {
        for seen in all() {
            let (gone, _) = play(seen.clone(), to_delete);
            assert_eq!((gone.directory, gone.running), (Directory::Absent, None), "{seen:?}");
        }
    }

    /// Shows HST-22.
    #[test]
    fn a_started_process_without_a_record_is_recorded() {
        let (made, _) = play(NOTHING, to_create);
        assert_eq!(to_create(&Seen { noted: None, ..made.clone() }), Some(Step::Note));
        assert_eq!(to_create(&Seen { noted: Some(OLD), ..made }), Some(Step::Note));
    }

    /// Shows HST-24.
    #[test]
    fn a_powered_off_vm_is_started_again_with_its_disk() {
        let (made, _) = play(NOTHING, to_create);
        let (_, steps) = play(Seen { running: None, ..made }, to_create);
        assert_eq!(steps, [Step::Start]);
    }
}
