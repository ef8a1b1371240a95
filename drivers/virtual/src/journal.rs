//! Which VMs something was done to, in order.
//!
//! Nodes follow the cloud by reading on from where they stopped, so that one change wakes one kubelet and not five thousand.
//! The journal is bounded; a reader that fell behind is told to look at everything.

use std::collections::VecDeque;

use crate::vm::VmId;

const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    notes: VecDeque<VmId>,
    forgotten: u64,
}

/// What a reader missed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// These VMs, in order, perhaps more than once.
    Of(Vec<VmId>),
    /// More than the journal remembers.
    Everything,
}

impl Journal {
    pub(crate) fn note(&mut self, vm: &VmId) {
        if self.notes.len() == REMEMBERED {
            self.notes.pop_front();
            self.forgotten += 1;
        }
        self.notes.push_back(vm.clone());
    }

    /// The place behind the last note.
    pub(crate) fn end(&self) -> u64 {
        self.forgotten + self.notes.len() as u64
    }

    /// What was noted from this place on.
    pub(crate) fn since(&self, place: u64) -> News {
        let skip = place.checked_sub(self.forgotten).and_then(|skip| usize::try_from(skip).ok());
        skip.map_or(News::Everything, |skip| News::Of(self.notes.iter().skip(skip).cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_fell_behind_is_told_to_look_at_everything() {
        let vm = VmId("vm-1".into());
        let mut journal = Journal::default();
        journal.note(&vm);
        assert_eq!(journal.since(0), News::Of(vec![vm.clone()]));
        assert_eq!(journal.since(journal.end()), News::Of(vec![]));
        (0..REMEMBERED).for_each(|_| journal.note(&vm));
        assert_eq!(journal.since(0), News::Everything);
    }
}
