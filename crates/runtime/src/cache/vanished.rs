//! What the last list no longer had, until it is known why.
//!
//! When an API server was put back to an older copy, each kind is read again at a moment of its own. The first of them may find nothing
//! wrong and call what is missing *vanished*; the one that finds out comes seconds later, and warns the others. What was called vanished
//! has then been *forgotten*, and is told again as that.

use super::delta::{Delta, Removal};
use super::store::Deltas;

pub(super) struct Vanished<K>(Deltas<K>);

impl<K> Default for Vanished<K> {
    fn default() -> Self {
        Self(Deltas::new())
    }
}

impl<K> Vanished<K> {
    /// A list was taken over, with these changes.
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

    /// The watch has come to a bookmark, which takes a minute: whoever finds out has done so by now.
    pub(super) fn passed(&mut self) {
        self.0 = Deltas::new();
    }

    /// The API server was put back: what is to be told of what had vanished before.
    pub(super) fn forgotten(&mut self) -> Deltas<K> {
        std::mem::take(&mut self.0)
    }
}
