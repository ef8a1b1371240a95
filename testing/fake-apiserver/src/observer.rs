//! Who looks at everything that happens, in the moment in which it does.
//!
//! Tests that look at the end miss what was wrong in between. An observer is called for each write, each state that a client was
//! shown and each request that was answered, in their order. It is called while the server holds its lock: it must not ask the
//! server anything.

use std::fmt;
use std::sync::Arc;

use crate::faults::Verb;
use crate::ledger::Entry;
use crate::store::Change;

/// Something that has happened.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// An object was written.
    Written {
        /// Its kind, by its qualified name.
        kind: &'a str,
        /// What was there before and after.
        change: &'a Change,
        /// By which request.
        by: &'a Author,
    },
    /// A client has been shown a kind up to this revision by its watch.
    Shown {
        /// The kind, by its qualified name.
        kind: &'a str,
        /// The `User-Agent` of the client.
        to: &'a str,
        /// How far it sees.
        revision: u64,
    },
    /// A request was answered, or its connection broke.
    Answered(&'a Entry),
}

/// The request behind a write. All is empty for what the server does by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// The client's `User-Agent`.
    pub user_agent: String,
    /// Like `patch`.
    pub verb: &'static str,
    /// Like `eviction`.
    pub subresource: String,
}

/// Whoever looks.
pub type Observer = Arc<dyn Fn(&Observation<'_>) + Send + Sync>;

/// The observer, if there is one, and on whose behalf the server writes at the moment.
#[derive(Clone, Default)]
pub(crate) struct Observed {
    observer: Option<Observer>,
    by: Author,
}

impl Observed {
    pub(crate) fn set(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// From now on writes are part of this request.
    pub(crate) fn act_for(&mut self, user_agent: &str, verb: Verb, subresource: &str) {
        if self.observer.is_some() {
            user_agent.clone_into(&mut self.by.user_agent);
            subresource.clone_into(&mut self.by.subresource);
            self.by.verb = verb.as_str();
        }
    }

    /// From now on writes are the server's own.
    pub(crate) fn act_alone(&mut self) {
        self.by = Author::default();
    }

    pub(crate) fn written(&self, kind: &str, change: &Change) {
        self.tell(&Observation::Written { kind, change, by: &self.by });
    }

    pub(crate) fn tell(&self, observation: &Observation<'_>) {
        if let Some(observer) = &self.observer {
            observer(observation);
        }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("by", &self.by).finish_non_exhaustive()
    }
}
