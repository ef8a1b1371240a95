//! Derives the remaining steps from the observed state.
//!
//! A process may be killed between any two steps, and the next one knows only the state of the kernel and the machine's
//! directory. So no step is stored: the next one always follows from the current state. The directory is created first
//! and removed last, so a machine is listed as long as any part of it exists. Running processes are found by the
//! cgroup, which every process of a machine joins first. So an init without a record is found, and an incomplete start
//! is killed.

use lab_host_common::process::Process;
use lab_host_common::state::Directory;

/// The observed state of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) directory: Directory,
    pub(crate) cgroups: Cgroups,
    pub(crate) running: Running,
    pub(crate) link: Link,
    /// The recorded init, written when the machine was complete.
    pub(crate) noted: Option<Process>,
}

/// The cgroups of a machine, one in each hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    Absent,
    Some,
    All,
}

/// The processes in the cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    Nothing,
    /// Processes without the init of a machine.
    Strays,
    Init(Process),
}

/// The host's end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Absent,
    /// Exists, but is not on the bridge or not up.
    Loose,
    Connected,
}

/// A step. Each can be repeated, and takes a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Selects an address, creates the directory, writes the record.
    Reserve,
    MakeCgroups,
    /// Kills all processes in the cgroups, and waits until they have exited.
    Kill,
    RemoveLink,
    /// Starts the init, which waits for its link.
    Start,
    AddLink,
    ConnectLink,
    /// Records the init: the machine is complete.
    NoteInit,
    RemoveCgroups,
    RemoveDirectory,
}

/// Returns the next step towards a running machine; `None` if it runs.
#[must_use]
pub(crate) fn to_create(seen: &Seen) -> Option<Step> {
    if seen.directory != Directory::Complete {
        return Some(Step::Reserve);
    }
    if seen.cgroups != Cgroups::All {
        // If a cgroup is missing, the processes in the others belong to an incomplete start.
        return Some(if seen.running == Running::Nothing { Step::MakeCgroups } else { Step::Kill });
    }
    let init = match seen.running {
        Running::Strays => return Some(Step::Kill),
        // A remaining link leads to the namespace of an init that has exited.
        Running::Nothing if seen.link != Link::Absent => return Some(Step::RemoveLink),
        Running::Nothing => return Some(Step::Start),
        Running::Init(init) => init,
    };
    match seen.link {
        Link::Absent => Some(Step::AddLink),
        Link::Loose => Some(Step::ConnectLink),
        Link::Connected if seen.noted != Some(init) => Some(Step::NoteInit),
        Link::Connected => None,
    }
}

/// Returns the next step of a deletion; `None` if nothing is left.
#[must_use]
pub(crate) fn to_delete(seen: &Seen) -> Option<Step> {
    if seen.running != Running::Nothing {
        Some(Step::Kill)
    } else if seen.link != Link::Absent {
        Some(Step::RemoveLink)
    } else if seen.cgroups != Cgroups::Absent {
        Some(Step::RemoveCgroups)
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
    const NOTHING: Seen = Seen {
        directory: Directory::Absent,
        cgroups: Cgroups::Absent,
        running: Running::Nothing,
        link: Link::Absent,
        noted: None,
    };

    /// Simulates the host.
    fn carry_out(step: Step, seen: &mut Seen) {
        match step {
            Step::Reserve => seen.directory = Directory::Complete,
            Step::MakeCgroups => seen.cgroups = Cgroups::All,
            Step::Kill => seen.running = Running::Nothing,
            Step::RemoveLink => seen.link = Link::Absent,
            Step::Start => {
                assert_eq!(seen.running, Running::Nothing, "a machine must have one init");
                seen.running = Running::Init(NEW);
            }
            Step::AddLink => {
                assert!(matches!(seen.running, Running::Init(_)), "a link needs a running init");
                seen.link = Link::Loose;
            }
            Step::ConnectLink => seen.link = Link::Connected,
            Step::NoteInit => seen.noted = if let Running::Init(init) = seen.running { Some(init) } else { None },
            Step::RemoveCgroups => {
                assert_eq!(seen.running, Running::Nothing, "a cgroup with processes cannot be removed");
                seen.cgroups = Cgroups::Absent;
            }
            Step::RemoveDirectory => (seen.directory, seen.noted) = (Directory::Absent, None),
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
            for cgroups in [Cgroups::Absent, Cgroups::Some, Cgroups::All] {
                for running in [Running::Nothing, Running::Strays, Running::Init(OLD), Running::Init(NEW)] {
                    for link in [Link::Absent, Link::Loose, Link::Connected] {
                        for noted in [None, Some(OLD), Some(NEW)] {
                            all.push(Seen { directory, cgroups, running, link, noted });
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn a_machine_is_created_and_deleted_in_order() {
        let (made, steps) = play(NOTHING, to_create);
        let expected =
            [Step::Reserve, Step::MakeCgroups, Step::Start, Step::AddLink, Step::ConnectLink, Step::NoteInit];
        assert_eq!(steps, expected);
        let (gone, steps) = play(made, to_delete);
        assert_eq!(steps, [Step::Kill, Step::RemoveLink, Step::RemoveCgroups, Step::RemoveDirectory]);
        assert_eq!(gone, NOTHING);
    }

    /// Shows HST-3.
    #[test]
    fn a_create_results_in_a_running_machine_from_every_state() {
        for seen in all() {
            let (made, steps) = play(seen.clone(), to_create);
            let Running::Init(init) = made.running else { panic!("{seen:?} became {made:?}") };
            assert_eq!((made.noted, made.link, made.cgroups), (Some(init), Link::Connected, Cgroups::All), "{steps:?}");
            assert_eq!(made.directory, Directory::Complete);
        }
    }

    /// Shows HST-3.
    #[test]
    fn a_delete_removes_everything_from_every_state() {
        for seen in all() {
            let (gone, _) = play(seen.clone(), to_delete);
            let left = Seen { noted: None, ..gone };
            assert_eq!(left, NOTHING, "{seen:?}");
        }
    }

    /// Shows HST-4.
    #[test]
    fn every_existing_part_of_a_machine_has_a_directory() {
        for next in [to_create, to_delete] {
            for mut seen in [NOTHING, play(NOTHING, to_create).0] {
                while let Some(step) = next(&seen) {
                    carry_out(step, &mut seen);
                    let (exists, listed) = (seen != NOTHING, seen.directory != Directory::Absent);
                    assert_eq!(exists, listed, "after {step:?}: {seen:?}");
                }
            }
        }
    }

    /// Shows HST-5.
    #[test]
    fn a_reused_process_id_is_not_taken_for_the_init() {
        let (made, _) = play(NOTHING, to_create);
        let reused = Seen { noted: Some(OLD), ..made };
        assert_eq!(to_create(&reused), Some(Step::NoteInit));
    }

    /// Shows HST-6.
    #[test]
    fn an_exited_machine_is_started_again_with_a_new_link() {
        let (made, _) = play(NOTHING, to_create);
        let (_, steps) = play(Seen { running: Running::Nothing, ..made }, to_create);
        assert_eq!(steps[..3], [Step::RemoveLink, Step::Start, Step::AddLink]);
    }
}
