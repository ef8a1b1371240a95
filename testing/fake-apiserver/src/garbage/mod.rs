//! The garbage collector: what nobody owns any more goes.
//!
//! In a real cluster this is a part of kube-controller-manager. Deletions lean on it everywhere: a set is deleted, and its
//! machines, and their secrets, follow because they name it as their owner. So a server in memory without it would be another
//! world. It is still not the server itself: it runs only where [`Server::keep_house`](crate::Server::keep_house) is asked for,
//! and it does nothing that a client could not do.
//!
//! It is driven by events alone. Every write that could free or doom something puts the objects concerned into a queue; each
//! is then looked at as it is now, never as it was when the event came. That makes the order of events unimportant and every
//! look harmless, also the superfluous ones.

mod collect;
mod graph;

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::kinds::definitions;
use crate::state::State;
use graph::{Graph, Uid};

/// Remarks about objects are not objects that could be owned in earnest; the reference leaves them out too.
const NOT_COLLECTED: &str = "events";

/// What the collector knows: who owns whom, up to which write.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    graph: Graph,
    /// Up to which write, and of which life of the store; nothing before the first look.
    seen: Option<StoreVersion>,
    /// Objects with an owner of a kind that nobody serves: it may be served later.
    unresolved: BTreeSet<Uid>,
}

#[derive(Clone, Copy, Debug)]
struct StoreVersion {
    revision: u64,
    epoch: u64,
}

impl Collector {
    /// Collects whatever can be collected now.
    pub(crate) fn collect(&mut self, state: &mut State, now: Timestamp) {
        loop {
            self.observe(state);
            let Some(uid) = self.graph.next() else { return };
            self.look_at(state, &uid, now);
        }
    }

    /// Catches up with the store.
    fn observe(&mut self, state: &State) {
        let now = StoreVersion { revision: state.store.revision(), epoch: state.store.epoch() };
        let seen = self.seen.filter(|seen| seen.epoch == now.epoch);
        let followed = seen.is_some_and(|seen| seen.revision == now.revision || self.follow(state, seen.revision));
        if !followed {
            // The past is forgotten or was rewritten.
            self.begin_anew(state);
        }
        self.seen = Some(now);
    }

    fn follow(&mut self, state: &State, revision: u64) -> bool {
        for kind in state.store.kinds().filter(|kind| *kind != NOT_COLLECTED) {
            let Ok(changes) = state.store.changes_after(kind, revision) else { return false };
            for change in changes {
                self.graph.follow(kind, change);
                if kind == definitions::STORED_AS {
                    self.graph.enqueue(std::mem::take(&mut self.unresolved));
                }
            }
        }
        true
    }

    fn begin_anew(&mut self, state: &State) {
        *self = Self::default();
        for kind in state.store.kinds().filter(|kind| *kind != NOT_COLLECTED) {
            let objects = state.store.view(kind, state.store.revision(), None, None).unwrap_or_default();
            for (key, object) in objects {
                self.graph.insert(kind, key, object);
            }
        }
    }
}
