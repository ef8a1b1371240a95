//! The state of one object and what happens next.

use jiff::Timestamp;
use planner::Wake;
use serde::Serialize;

use crate::leader::{Component, ELECT, Lease};
use crate::{Snapshot, words};

/// Health of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Health {
    /// The desired state is reached.
    #[serde(rename = "fine")]
    Healthy,
    /// In progress; no action is needed.
    #[serde(rename = "working")]
    InProgress,
    /// A user must act, or the Node is not healthy.
    #[serde(rename = "troubled")]
    NeedsAttention,
}

/// The result of a planner for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Health of the object.
    #[serde(rename = "standing")]
    pub health: Health,
    /// Reason of the planner.
    pub reason: String,
    /// Steps of the next reconcile.
    pub steps: Vec<String>,
    /// The event that triggers the next reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Latest time of the next reconcile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What follows when that time has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// Deadline, and what happens then.
    #[serde(rename = "inTheEnd", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Remedies, the preferred one first.
    pub unblock: Vec<String>,
    /// What could not be determined.
    pub not_known: Vec<String>,
}

impl Verdict {
    pub(crate) fn new(health: Health, reason: String, steps: Vec<String>, wake: Wake) -> Self {
        let (waits_for, until) = match wake {
            Wake::Again => (None, None),
            Wake::On(awaited) => (Some(awaited.to_string()), None),
            Wake::By { awaited, at } => (Some(awaited.to_string()), Some(at)),
        };
        Self {
            health,
            reason,
            steps,
            waits_for,
            until,
            then: None,
            deadline: None,
            unblock: Vec::new(),
            not_known: Vec::new(),
        }
    }

    /// Returns the verdict for an object that cannot be planned.
    pub(crate) fn needs_attention(reason: String, unblock: &str) -> Self {
        Self {
            health: Health::NeedsAttention,
            reason,
            steps: Vec::new(),
            waits_for: Some("a change of the object".to_owned()),
            until: None,
            then: None,
            deadline: None,
            unblock: vec![unblock.to_owned()],
            not_known: Vec::new(),
        }
    }

    /// Adds a missing leader. The plan is kept: it is what happens once there is a leader.
    pub(crate) fn led_by(mut self, snapshot: &Snapshot, component: Component) -> Self {
        let lease = snapshot.leases.iter().find(|lease| lease.component == component);
        self.not_known.extend(lease.and_then(Lease::unknown_leader));
        if let Some(why) = lease.and_then(|lease| lease.missing_leader(snapshot.now)) {
            self.health = Health::NeedsAttention;
            self.reason = format!("no leader: {why}. Once there is a leader: {}", self.reason);
            self.waits_for = Some("a leader".to_owned());
            self.until = None;
            self.then = None;
            self.deadline = None;
            self.unblock.insert(0, ELECT.to_owned());
        }
        self
    }

    /// Returns the awaited event and its deadline in one line; `None` if nothing is awaited.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<String> {
        let waits_for = self.waits_for.as_ref()?;
        Some(match (self.until, &self.then) {
            (None, _) => waits_for.clone(),
            (Some(at), None) => format!("{waits_for}; next reconcile at {} at the latest", words::until(at, now)),
            (Some(at), Some(then)) => format!("{waits_for}, until {}; then {then}", words::until(at, now)),
        })
    }
}
