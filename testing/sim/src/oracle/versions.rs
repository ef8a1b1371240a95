//! Revisions that only increase.
//!
//! After a restore, an API server assigns the same revisions again. The oracle compares revisions, so this module maps
//! each one to a number that is higher than all before.

/// Mapping of the revisions of the API server.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Last revision of the API server.
    last: u64,
    /// Offset that is added since the restore.
    added: u64,
}

impl Versions {
    /// Records a revision that the API server assigned.
    pub(super) fn written(&mut self, revision: u64) -> u64 {
        self.last = self.last.max(revision);
        revision + self.added
    }

    /// Maps a revision that a watch has delivered. Returns `None` if it is from before the restore and was not assigned
    /// again.
    pub(super) fn shown(&self, revision: u64) -> Option<u64> {
        (self.added == 0 || revision <= self.last).then_some(revision + self.added)
    }

    /// Records a restore to this revision, which counts as later than all before.
    pub(super) fn restored(&mut self, revision: u64) -> u64 {
        self.added = (self.last + self.added + 1).saturating_sub(revision);
        self.last = revision;
        revision + self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_increase_after_a_restore() {
        let mut versions = Versions::default();
        assert_eq!((versions.written(7), versions.shown(9)), (7, Some(9)));
        versions.written(10);
        assert_eq!(versions.restored(4), 11);
        assert_eq!(versions.shown(10), None, "this revision was not assigned again yet");
        assert_eq!((versions.shown(4), versions.written(5), versions.shown(5)), (Some(11), 12, Some(12)));
        assert_eq!(versions.restored(1), 13);
        assert_eq!(versions.written(2), 14);
    }
}
