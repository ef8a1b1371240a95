//! The driver calls at one moment, for `/debug/state`.

use jiff::Timestamp;
use planner::machine::CallUnderWay;
use serde::Serialize;

use super::DriverCalls;

/// The calls in flight, the calls that wait, and why. A credential is shown by the name of its Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverCallsState {
    /// The calls of each credential.
    pub credentials: Vec<CredentialState>,
    /// Classes for which the cloud has no capacity.
    pub classes_held_back: Vec<String>,
    /// Calls about Machines that have not ended.
    pub calls: Vec<CallState>,
}

/// The calls of one credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialState {
    /// Name of its Secret.
    pub secret: String,
    /// Number of calls in flight.
    pub out: usize,
    /// Number of calls that wait.
    pub waiting: usize,
    /// Whether no calls are sent because the cloud throttles the credential.
    pub paused: bool,
}

/// A call about a Machine, queued or in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallState {
    /// The Machine.
    pub machine: String,
    /// The operation.
    pub call: &'static str,
    /// The time at which the call ends at the latest.
    pub until: Timestamp,
}

impl DriverCalls {
    /// Returns the current calls.
    pub fn state(&self) -> DriverCallsState {
        let (traffic, classes_held_back) = self.context.limiter.traffic();
        let credentials = traffic.into_iter().map(|(secret, traffic)| CredentialState {
            secret,
            out: traffic.running,
            waiting: traffic.queued,
            paused: traffic.paused,
        });
        let calls = self.context.open_calls.all().into_iter().map(|(key, CallUnderWay { call, until })| CallState {
            machine: key.to_string(),
            call: call.verb(),
            until,
        });
        DriverCallsState { credentials: credentials.collect(), classes_held_back, calls: calls.collect() }
    }
}
