//! Prevents the deletion of objects that others use.
//!
//! A Machine's VM can be deleted only with its MachineClass, and a MachineClass works only with its Secrets. Each of
//! them has Millwright's finalizer while it is in use, and no longer: an object that is not used must be deletable,
//! also while the controller is down.
//!
//! Users are counted in the cache. While a possible user cannot be decoded, no finalizer is removed: a Machine with a
//! typing error still has its VM.

use api::Text;
use std::collections::BTreeSet;

use api::lists::{finalizers_with, finalizers_without};
use api::names::events;

use crate::{Event, EventType};

/// The users of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users<'a> {
    /// Number of users.
    pub count: usize,
    /// One of them, for the message.
    pub example: Option<&'a str>,
    /// Number of objects that cannot be decoded and may be users.
    pub undecodable: usize,
}

/// An object that is protected while it is in use.
#[derive(Clone, Copy, Debug)]
pub struct Protected<'a> {
    /// The finalizers of the object.
    pub finalizers: &'a [Text],
    /// The finalizer that protects it.
    pub finalizer: &'static str,
    /// Whether the object is being deleted.
    pub deleting: bool,
    /// Its users.
    pub users: Users<'a>,
    /// Plural name of the kind of the users.
    pub kind_of_users: &'static str,
    /// What was reported about it already.
    pub reported: &'a BTreeSet<Notice>,
}

/// A fact that is reported once per object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// The deletion is blocked.
    InUse,
    /// The object is invalid for this reason.
    Invalid(String),
}

/// What to do about a protected object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The complete list of finalizers to write, with the observed version as precondition; `None` if it stays as it
    /// is.
    pub finalizers: Option<Vec<Text>>,
    /// The Events to emit now.
    pub notices: Vec<(Notice, Event)>,
    /// Why.
    pub because: Reason,
}

/// Why a plan was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// The object is in use.
    #[default]
    InUse,
    /// The object is being deleted, but is still in use.
    DeletionBlocked,
    /// The object is not in use.
    Unused,
    /// A possible user cannot be decoded.
    Unknown,
}

/// Decides whether an object keeps its finalizer.
#[must_use]
pub fn plan(object: &Protected<'_>) -> Plan {
    let Users { count, example, undecodable } = object.users;
    match (count, undecodable) {
        (0, 0) => {
            let finalizers = finalizers_without(object.finalizers, object.finalizer);
            Plan { finalizers, because: Reason::Unused, ..Plan::default() }
        }
        (0, _) => Plan { because: Reason::Unknown, ..Plan::default() },
        // The API server accepts no new finalizer once an object is being deleted.
        (_, _) if object.deleting => {
            let kind = object.kind_of_users;
            let example = example.unwrap_or_default();
            let message = format!("deletion is blocked while {count} {kind} use the object, for example {example:?}");
            let event = Event { event_type: EventType::Warning, reason: events::millwright::IN_USE, message };
            let notice = (!object.reported.contains(&Notice::InUse)).then_some((Notice::InUse, event));
            Plan { notices: notice.into_iter().collect(), because: Reason::DeletionBlocked, ..Plan::default() }
        }
        (_, _) => Plan { finalizers: finalizers_with(object.finalizers, object.finalizer), ..Plan::default() },
    }
}
