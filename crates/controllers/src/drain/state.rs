//! The drains for `/debug/state`.

use std::sync::Arc;

use api::view::PodView;
use jiff::Timestamp;
use serde::Serialize;

use super::Drains;

/// The progress of a drain. Its next step, and the reason, is in the last decision about the Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainState {
    /// The Machine.
    pub machine: String,
    /// Its Node, once it is watched.
    pub node: Option<String>,
    /// When it began in this process.
    pub since: Timestamp,
    /// Number of drains before it, while it waits for the concurrency limit.
    pub ahead: Option<usize>,
    /// Number of pods on the Node, once they were listed.
    pub pods: Option<usize>,
}

impl Drains {
    /// Returns the current drains.
    pub fn state(&self) -> Vec<DrainState> {
        let all = self.running.all().into_iter().map(|(key, drain)| DrainState {
            machine: key.to_string(),
            node: drain.node().map(str::to_owned),
            since: drain.begun,
            ahead: drain.ahead(),
            pods: drain.pods().map(|(pods, unreadable)| pods.len() + unreadable.len()),
        });
        all.collect()
    }

    /// Returns the pods of the Nodes that are being drained, by Node, if they were listed.
    pub fn pods(&self) -> Vec<(String, Vec<Arc<PodView>>)> {
        let pods = |drain: &super::running::Drain| Some((drain.node()?.to_owned(), drain.pods()?.0));
        self.running.all().into_iter().filter_map(|(_, drain)| pods(&drain)).collect()
    }
}
