//! Versions of writes that only grow.
//!
//! An API server that is put back to an older copy gives its versions out again. Everything here is compared by versions (what was shown
//! of what was written), so each is counted on from the last one before.

/// How the API server's versions are counted.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// The API server's last one.
    last: u64,
    /// What is added to the API server's, since it was put back.
    added: u64,
}

impl Versions {
    /// The API server has given this one out.
    pub(super) fn written(&mut self, revision: u64) -> u64 {
        self.last = self.last.max(revision);
        revision + self.added
    }

    /// A watch has come to this one; nothing if it is from before the API server was put back, and has not been given out again.
    pub(super) fn shown(&self, revision: u64) -> Option<u64> {
        (self.added == 0 || revision <= self.last).then_some(revision + self.added)
    }

    /// The API server was put back to this one, which counts as later than all before.
    pub(super) fn put_back(&mut self, revision: u64) -> u64 {
        self.added = (self.last + self.added + 1).saturating_sub(revision);
        self.last = revision;
        revision + self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_after_a_copy_was_put_back_is_later_than_all_before() {
        let mut versions = Versions::default();
        assert_eq!((versions.written(7), versions.shown(9)), (7, Some(9)));
        versions.written(10);
        assert_eq!(versions.put_back(4), 11);
        assert_eq!(versions.shown(10), None, "nobody has been shown what is written under this number the second time");
        assert_eq!((versions.shown(4), versions.written(5), versions.shown(5)), (Some(11), 12, Some(12)));
        assert_eq!(versions.put_back(1), 13);
        assert_eq!(versions.written(2), 14);
    }
}
