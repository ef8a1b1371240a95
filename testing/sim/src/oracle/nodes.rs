//! State of Nodes.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{conditions, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::history::History;
use super::machines::label;
use super::owned::Owned;
use super::{Author, Write, Writer, is_deleting, text};

/// Nodes. They are kept after their removal.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, Node>);

#[derive(Debug, Default)]
struct Node {
    states: History<State>,
    /// Time since which it is healthy.
    healthy_since: Option<Timestamp>,
    /// Whether it is selected for an update that has not succeeded.
    selected: Owned,
    /// The author of the cordon.
    cordoned: Option<Author>,
}

impl Node {
    fn note(&mut self, revision: u64, state: State, now: Timestamp) {
        self.states.set(revision, state);
        self.healthy_since = state.is_healthy.then(|| self.healthy_since.unwrap_or(now));
    }
}

/// State of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Whether it is Ready and has no unhealthy condition.
    pub(super) is_healthy: bool,
    /// Whether it is selected for an in-place update.
    pub(super) is_selected: bool,
}

const GONE: State = State { is_healthy: false, is_selected: false };

impl Nodes {
    pub(super) fn note(&mut self, write: &Write<'_>, now: Timestamp) {
        if write.kind != "nodes" {
            return;
        }
        let state = write.after.filter(|node| !is_deleting(node)).map_or(GONE, State::of);
        if !self.0.contains_key(write.name) {
            self.0.insert(write.name.to_owned(), Node::default());
        }
        if let Some(node) = self.0.get_mut(write.name) {
            node.note(write.revision, state, now);
            let is_selected = write.after.is_some_and(|node| {
                !label(node, labels::SELECTED_FOR_UPDATE).is_empty()
                    && label(node, labels::UPDATE_RESULT) != "successful"
            });
            let is_cordoned =
                write.after.is_some_and(|node| node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)));
            node.cordoned = is_cordoned.then(|| node.cordoned.unwrap_or(write.by));
            node.selected.set(write.revision, is_selected, write.writer);
        }
    }

    /// Whether a Node is cordoned by the controllers.
    pub(super) fn is_cordoned_by_us(&self, node: &str) -> bool {
        self.0.get(node).and_then(|node| node.cordoned).is_some_and(Author::is_controller)
    }

    /// Whether a reader must know that a Node is selected for an update.
    pub(super) fn is_known_as_selected(
        &self,
        node: &str,
        seen: u64,
        reader: Option<Writer>,
        responses_arrive: bool,
    ) -> bool {
        self.0.get(node).is_some_and(|node| node.selected.is_known(seen, reader, responses_arrive))
    }

    /// Records a restore of the API server to a copy with these Nodes.
    pub(super) fn forget(&mut self, nodes: &BTreeSet<&str>, revision: u64, now: Timestamp) {
        for (_, node) in self.0.iter_mut().filter(|(name, _)| !nodes.contains(name.as_str())) {
            node.note(revision, GONE, now);
        }
    }

    /// Returns the states of a Node at this revision and later; empty if the Node is unknown.
    pub(super) fn since(&self, node: &str, revision: u64) -> impl Iterator<Item = State> {
        self.0.get(node).into_iter().flat_map(move |node| node.states.since(revision).copied())
    }

    /// Whether a Node existed at this revision.
    pub(super) fn existed(&self, node: &str, revision: u64) -> bool {
        self.0.get(node).is_some_and(|node| node.states.began_at() <= revision)
    }

    /// Whether a Node has existed and been healthy since this revision.
    pub(super) fn was_always_healthy(&self, node: &str, revision: u64) -> bool {
        let was = |states: &History<State>| {
            states.began_at() <= revision && states.since(revision).all(|state| state.is_healthy)
        };
        self.0.get(node).is_some_and(|node| was(&node.states))
    }

    /// Returns the time since which a Node exists and is healthy.
    pub(super) fn healthy_since(&self, node: &str) -> Option<Timestamp> {
        self.0.get(node)?.healthy_since
    }
}

impl State {
    fn of(node: &Value) -> Self {
        let all = || node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let is_ready = |condition: &Value| text(condition, "/type") == "Ready" && text(condition, "/status") == "True";
        let is_harmful = |condition: &Value| {
            let mut harmful = conditions::node::UNHEALTHY_BY_DEFAULT.split(',');
            harmful.any(|kind| kind == text(condition, "/type")) && text(condition, "/status") != "False"
        };
        let is_chosen = |condition: &Value| {
            text(condition, "/type") == conditions::in_place::TYPE
                && text(condition, "/reason") == conditions::in_place::SELECTED
        };
        Self {
            is_healthy: all().any(is_ready) && !all().any(is_harmful),
            is_selected: !label(node, labels::SELECTED_FOR_UPDATE).is_empty() || all().any(is_chosen),
        }
    }
}
