//! An object that others need is not let go before they are gone.
//!
//! A machine's VM can be deleted only with its class, and a class is of use only with its Secrets. So each carries our finalizer
//! while it is needed, and no longer: an object that nobody needs must go when its owner deletes it, also while we are down.
//!
//! Who needs it is counted from what we see. While somebody among those who might cannot be read, nothing is let go: a machine with
//! a typing error still has its VM.

use api::Text;
use std::collections::BTreeSet;

use api::lists::{finalizers_with, finalizers_without};
use api::names::events;

use crate::{Event, EventType};

/// Who needs an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Users<'a> {
    /// How many do.
    pub count: usize,
    /// One of them, for the sentence.
    pub example: Option<&'a str>,
    /// How many might, but cannot be read.
    pub unreadable: usize,
}

/// An object in our in_use_protection.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Its finalizers.
    pub finalizers: &'a [Text],
    /// Which of them would be ours.
    pub ours: &'static str,
    /// Someone asked for its deletion.
    pub deleting: bool,
    /// Who needs it.
    pub users: Users<'a>,
    /// What those are.
    pub kind_of_users: &'static str,
    /// What people have been told about it already.
    pub said: &'a BTreeSet<Said>,
}

/// Something people have been told, so that they are told once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Said {
    /// Its deletion waits.
    InUse,
    /// It is invalid, in these words.
    Invalid(String),
}

/// What to do about an object that others may need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The whole list of finalizers to write, over the version the decision was based on; `None` leaves it alone.
    pub finalizers: Option<Vec<Text>>,
    /// What to tell people now.
    pub tell: Vec<(Said, Event)>,
    /// Why.
    pub because: Reason,
}

/// Why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// Somebody needs it.
    #[default]
    Needed,
    /// Somebody needs it though it is to be deleted.
    NeededStill,
    /// Nobody needs it.
    NotNeeded,
    /// Nobody can tell whether somebody needs it.
    Unclear,
}

/// Decides whether an object is held on to.
#[must_use]
pub fn plan(kept: &Kept<'_>) -> Plan {
    let Users { count, example, unreadable } = kept.users;
    match (count, unreadable) {
        (0, 0) => {
            let finalizers = finalizers_without(kept.finalizers, kept.ours);
            Plan { finalizers, because: Reason::NotNeeded, ..Plan::default() }
        }
        (0, _) => Plan { because: Reason::Unclear, ..Plan::default() },
        // The API server takes no new finalizer once an object is being deleted.
        (_, _) if kept.deleting => {
            let kind = kept.kind_of_users;
            let example = example.unwrap_or_default();
            let message =
                format!("its deletion waits until nothing needs it: {count} {kind} do, among them {example:?}");
            let event = Event { event_type: EventType::Warning, reason: events::ours::IN_USE, message };
            let tell = (!kept.said.contains(&Said::InUse)).then_some((Said::InUse, event));
            Plan { tell: tell.into_iter().collect(), because: Reason::NeededStill, ..Plan::default() }
        }
        (_, _) => Plan { finalizers: finalizers_with(kept.finalizers, kept.ours), ..Plan::default() },
    }
}
