//! Objects that the last list did not contain, until the reason is known.
//!
//! If an API server was restored from a backup, each kind is relisted at a different time. The first cache may not
//! detect the restore and report the missing objects as *vanished*. Another cache detects it seconds later and warns
//! the others. Then the vanished objects are reported again as *forgotten*.

use super::delta::{Delta, Removal};
use super::store::Deltas;

pub(super) struct Vanished<K>(Deltas<K>);

impl<K> Default for Vanished<K> {
    fn default() -> Self {
        Self(Deltas::new())
    }
}

impl<K> Vanished<K> {
    /// A list was applied, with these changes.
    pub(super) fn listed(&mut self, deltas: &Deltas<K>) {
        let forgotten = |delta: &Delta<K>| match delta {
            Delta::Removed { last, how: Removal::Vanished } => {
                Some(Delta::Removed { last: last.clone(), how: Removal::Forgotten })
            }
            Delta::RemovedUndecodable { last, how: Removal::Vanished } => {
                Some(Delta::RemovedUndecodable { last: last.clone(), how: Removal::Forgotten })
            }
            _ => None,
        };
        self.0 = deltas.iter().filter_map(|(key, delta)| Some((key.clone(), forgotten(delta)?))).collect();
    }

    /// The watch has received a bookmark, which takes a minute: a restore would have been detected by now.
    pub(super) fn passed(&mut self) {
        self.0 = Deltas::new();
    }

    /// The API server was restored: returns the objects that vanished before, to be reported again.
    pub(super) fn forgotten(&mut self) -> Deltas<K> {
        std::mem::take(&mut self.0)
    }
}
