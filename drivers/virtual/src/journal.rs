//! A bounded journal of changed VMs, in order.
//!
//! Nodes read on from their last position, so that one change wakes one kubelet instead of five thousand. A reader that
//! fell behind must check all VMs.

use std::collections::VecDeque;

use crate::vm::VmId;

const REMEMBERED: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Journal {
    notes: VecDeque<VmId>,
    forgotten: u64,
}

/// Changes since the last position of a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// These VMs, in order, possibly repeated.
    Of(Vec<VmId>),
    /// More than the journal contains.
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

    /// Returns the position after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.forgotten + self.notes.len() as u64
    }

    /// Returns the entries from this position on.
    pub(crate) fn since(&self, place: u64) -> News {
        let skip = place.checked_sub(self.forgotten).and_then(|skip| usize::try_from(skip).ok());
        skip.map_or(News::Everything, |skip| News::Of(self.notes.iter().skip(skip).cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_that_fell_behind_must_check_everything() {
        let vm = VmId("vm-1".into());
        let mut journal = Journal::default();
        journal.note(&vm);
        assert_eq!(journal.since(0), News::Of(vec![vm.clone()]));
        assert_eq!(journal.since(journal.end()), News::Of(vec![]));
        (0..REMEMBERED).for_each(|_| journal.note(&vm));
        assert_eq!(journal.since(0), News::Everything);
    }
}
