//! The limiter at one moment, for `/debug/state`.

use jiff::Timestamp;
use planner::machine::CallUnderWay;
use serde::Serialize;

use super::CallLimiter;

/// Who is out, who waits, and why. A credential is shown by the name of its Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimiterState {
    /// What goes on, by credential.
    pub credentials: Vec<CredentialState>,
    /// Classes for which the cloud has no room.
    pub classes_held_back: Vec<String>,
    /// Calls about machines that have not ended.
    pub calls: Vec<CallState>,
}

/// The calls of one credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialState {
    /// Its Secret.
    pub secret: String,
    /// How many calls are out.
    pub out: usize,
    /// How many wait to leave.
    pub waiting: usize,
    /// Whether the cloud wants to be left alone.
    pub paused: bool,
}

/// A call about a machine, on its way out or out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallState {
    /// The machine.
    pub machine: String,
    /// What is asked.
    pub call: &'static str,
    /// When it has ended at the latest.
    pub until: Timestamp,
}

impl CallLimiter {
    /// How things stand.
    pub fn state(&self) -> LimiterState {
        let (traffic, classes_held_back) = self.shared.call_queue.traffic();
        let credentials = traffic.into_iter().map(|(secret, traffic)| CredentialState {
            secret,
            out: traffic.out,
            waiting: traffic.waiting,
            paused: traffic.paused,
        });
        let calls = self.shared.open_calls.all().into_iter().map(|(key, CallUnderWay { call, until })| CallState {
            machine: key.to_string(),
            call: call.verb(),
            until,
        });
        LimiterState { credentials: credentials.collect(), classes_held_back, calls: calls.collect() }
    }
}
