//! The drains at one moment, for `/debug/state`.

use std::sync::Arc;

use api::view::PodView;
use jiff::Timestamp;
use serde::Serialize;

use super::Drains;

/// How far a drain is. What it does next, and why, is in the last decision about its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainState {
    /// The machine.
    pub machine: String,
    /// Its node, as soon as somebody looks at it.
    pub node: Option<String>,
    /// Since when, in this process.
    pub since: Timestamp,
    /// How many go before it, while it waits for its turn.
    pub ahead: Option<usize>,
    /// How many pods are on the node, once they have been read.
    pub pods: Option<usize>,
}

impl Drains {
    /// How things stand.
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

    /// The pods of the nodes that are being emptied, by node, as far as they have been read.
    pub fn pods(&self) -> Vec<(String, Vec<Arc<PodView>>)> {
        let pods = |drain: &super::running::Drain| Some((drain.node()?.to_owned(), drain.pods()?.0));
        self.running.all().into_iter().filter_map(|(_, drain)| pods(&drain)).collect()
    }
}
