//! How one object stands, and what happens next.

use jiff::Timestamp;
use planner::Wake;
use serde::Serialize;

use crate::leader::{Component, ELECT, Lease};
use crate::{Snapshot, words};

/// Whether somebody has to look at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// As it should be.
    Fine,
    /// On its way; it needs nobody.
    Working,
    /// It does not get on unless somebody helps, or its node does not do its work.
    Troubled,
}

/// What a planner says of one object, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether somebody has to look.
    pub standing: Standing,
    /// The planner's reason.
    pub reason: String,
    /// What the next reconcile does.
    pub steps: Vec<String>,
    /// What wakes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When it is looked at again at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What follows when that time has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// What ends it in the end, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_the_end: Option<String>,
    /// What somebody can do about it.
    pub unblock: Vec<String>,
    /// What could not be found out from here.
    pub not_known: Vec<String>,
}

impl Verdict {
    pub(crate) fn new(standing: Standing, reason: String, steps: Vec<String>, wake: Wake) -> Self {
        let (waits_for, until) = match wake {
            Wake::Again => (None, None),
            Wake::On(awaited) => (Some(awaited.to_string()), None),
            Wake::By { awaited, at } => (Some(awaited.to_string()), Some(at)),
        };
        Self {
            standing,
            reason,
            steps,
            waits_for,
            until,
            then: None,
            in_the_end: None,
            unblock: Vec::new(),
            not_known: Vec::new(),
        }
    }

    /// Of an object that nobody can plan for.
    pub(crate) fn troubled(reason: String, unblock: &str) -> Self {
        Self {
            standing: Standing::Troubled,
            reason,
            steps: Vec::new(),
            waits_for: Some("a change of the object".to_owned()),
            until: None,
            then: None,
            in_the_end: None,
            unblock: vec![unblock.to_owned()],
            not_known: Vec::new(),
        }
    }

    /// The same, where nobody leads the component that would act. What is planned is still told: it is what happens once somebody does.
    pub(crate) fn led_by(mut self, snapshot: &Snapshot, component: Component) -> Self {
        let lease = snapshot.leases.iter().find(|lease| lease.component == component);
        self.not_known.extend(lease.and_then(Lease::doubt));
        if let Some(vacancy) = lease.and_then(|lease| lease.vacancy(snapshot.now)) {
            self.standing = Standing::Troubled;
            self.reason = format!("no leader: {vacancy}; once there is one: {}", self.reason);
            self.waits_for = Some("a leader".to_owned());
            self.until = None;
            self.then = None;
            self.in_the_end = None;
            self.unblock.insert(0, ELECT.to_owned());
        }
        self
    }

    /// What is waited for and until when, in a line; `None` if nothing is.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<String> {
        let waits_for = self.waits_for.as_ref()?;
        Some(match (self.until, &self.then) {
            (None, _) => waits_for.clone(),
            (Some(at), None) => format!("{waits_for}, looked at again at {} at the latest", words::until(at, now)),
            (Some(at), Some(then)) => format!("{waits_for}, until {}; then {then}", words::until(at, now)),
        })
    }
}
