//! What is left to do, from what is seen.
//!
//! A process may be killed between any two steps, and the next one knows only what the kernel and the machine's directory show. So no
//! step is remembered: each time the next one follows from what is there. The directory is made first and removed last, so whatever else
//! exists of a machine, its name is listed. What runs is known by its cgroup, which every process of a machine joins before it does anything
//! else; so an init that nobody wrote down is found, and a launch that never became an init is killed.

use lab_host_common::process::Process;
use lab_host_common::state::Directory;

/// What there is of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) directory: Directory,
    pub(crate) cgroups: Cgroups,
    pub(crate) running: Running,
    pub(crate) link: Link,
    /// The init that was written down, once all of the machine was there.
    pub(crate) noted: Option<Process>,
}

/// The cgroups of a machine, one in each hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    Absent,
    Some,
    All,
}

/// What runs in the cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    Nothing,
    /// Processes, but none that is the init of a machine.
    Strays,
    Init(Process),
}

/// The host's end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Absent,
    /// There, but not on the bridge or not up.
    Loose,
    Connected,
}

/// One thing to do. Each may be repeated, and each is over in a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Choose an address, make the directory, write the record.
    Reserve,
    MakeCgroups,
    /// Kill whatever runs in the cgroups, and wait until it is gone.
    Kill,
    RemoveLink,
    /// Start the init, which waits for its link.
    Start,
    AddLink,
    ConnectLink,
    /// Write the init down: the machine is made.
    NoteInit,
    RemoveCgroups,
    RemoveDirectory,
}

/// The next step towards a machine that runs; `None` when it does.
#[must_use]
pub(crate) fn to_create(seen: &Seen) -> Option<Step> {
    if seen.directory != Directory::Complete {
        return Some(Step::Reserve);
    }
    if seen.cgroups != Cgroups::All {
        // Where one is missing the processes in the others were not started by us in full.
        return Some(if seen.running == Running::Nothing { Step::MakeCgroups } else { Step::Kill });
    }
    let init = match seen.running {
        Running::Strays => return Some(Step::Kill),
        // A link that is still there leads to the namespace of an init that has ended.
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

/// The next step towards nothing; `None` when nothing is left.
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

    /// What the host does.
    fn carry_out(step: Step, seen: &mut Seen) {
        match step {
            Step::Reserve => seen.directory = Directory::Complete,
            Step::MakeCgroups => seen.cgroups = Cgroups::All,
            Step::Kill => seen.running = Running::Nothing,
            Step::RemoveLink => seen.link = Link::Absent,
            Step::Start => {
                assert_eq!(seen.running, Running::Nothing, "two inits for one machine");
                seen.running = Running::Init(NEW);
            }
            Step::AddLink => {
                assert!(matches!(seen.running, Running::Init(_)), "a link to nobody");
                seen.link = Link::Loose;
            }
            Step::ConnectLink => seen.link = Link::Connected,
            Step::NoteInit => seen.noted = if let Running::Init(init) = seen.running { Some(init) } else { None },
            Step::RemoveCgroups => {
                assert_eq!(seen.running, Running::Nothing, "the kernel removes no cgroup with processes in it");
                seen.cgroups = Cgroups::Absent;
            }
            Step::RemoveDirectory => (seen.directory, seen.noted) = (Directory::Absent, None),
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
    fn a_machine_is_made_in_this_order() {
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
    fn from_every_state_a_create_ends_with_a_machine_that_runs_and_is_written_down() {
        for seen in all() {
            let (made, steps) = play(seen.clone(), to_create);
            let Running::Init(init) = made.running else { panic!("{seen:?} became {made:?}") };
            assert_eq!((made.noted, made.link, made.cgroups), (Some(init), Link::Connected, Cgroups::All), "{steps:?}");
            assert_eq!(made.directory, Directory::Complete);
        }
    }

    /// Shows HST-3.
    #[test]
    fn from_every_state_a_delete_leaves_nothing() {
        for seen in all() {
            let (gone, _) = play(seen.clone(), to_delete);
            let left = Seen { noted: None, ..gone };
            assert_eq!(left, NOTHING, "{seen:?}");
        }
    }

    /// Shows HST-4.
    #[test]
    fn what_exists_of_a_machine_is_listed_because_its_directory_comes_first_and_goes_last() {
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
    fn a_process_with_the_number_of_the_init_is_not_taken_for_it() {
        let (made, _) = play(NOTHING, to_create);
        let reused = Seen { noted: Some(OLD), ..made };
        assert_eq!(to_create(&reused), Some(Step::NoteInit));
    }

    /// Shows HST-6.
    #[test]
    fn a_machine_that_ended_is_started_again_with_a_new_link() {
        let (made, _) = play(NOTHING, to_create);
        let (_, steps) = play(Seen { running: Running::Nothing, ..made }, to_create);
        assert_eq!(steps[..3], [Step::RemoveLink, Step::Start, Step::AddLink]);
    }
}
