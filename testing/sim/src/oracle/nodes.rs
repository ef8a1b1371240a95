//! How nodes have been.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{conditions, labels};
use jiff::Timestamp;
use serde_json::Value;

use super::history::History;
use super::machines::label;
use super::owned::Owned;
use super::{Author, Write, Writer, is_deleting, text};

/// The nodes, those that are gone too.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeMap<String, Node>);

#[derive(Debug, Default)]
struct Node {
    states: History<State>,
    /// Since when it has been well.
    well_since: Option<Timestamp>,
    /// Whether it is selected for an update that has not succeeded.
    selected: Owned,
    /// Who cordoned it, if it is cordoned.
    cordoned: Option<Author>,
}

impl Node {
    fn note(&mut self, revision: u64, state: State, now: Timestamp) {
        self.states.set(revision, state);
        self.well_since = state.is_well.then(|| self.well_since.unwrap_or(now));
    }
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Ready, and without a condition that is harmful.
    pub(super) is_well: bool,
    /// Whether it is to be updated in place.
    pub(super) is_selected: bool,
}

const GONE: State = State { is_well: false, is_selected: false };

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

    /// Whether a node is cordoned, and we did it.
    pub(super) fn is_cordoned_by_us(&self, node: &str) -> bool {
        self.0.get(node).and_then(|node| node.cordoned).is_some_and(Author::is_ours)
    }

    /// Whether a reader must know that a node is selected for an update.
    pub(super) fn is_known_as_selected(
        &self,
        node: &str,
        seen: u64,
        reader: Option<Writer>,
        answers_arrive: bool,
    ) -> bool {
        self.0.get(node).is_some_and(|node| node.selected.is_known(seen, reader, answers_arrive))
    }

    /// The API server was put back to a copy that has these nodes.
    pub(super) fn forget(&mut self, nodes: &BTreeSet<&str>, revision: u64, now: Timestamp) {
        for (_, node) in self.0.iter_mut().filter(|(name, _)| !nodes.contains(name.as_str())) {
            node.note(revision, GONE, now);
        }
    }

    /// How a node was at this revision and has been since. Nothing if nobody has heard of it.
    pub(super) fn since(&self, node: &str, revision: u64) -> impl Iterator<Item = State> {
        self.0.get(node).into_iter().flat_map(move |node| node.states.since(revision).copied())
    }

    /// Whether there has been a node since this revision or before.
    pub(super) fn was_there(&self, node: &str, revision: u64) -> bool {
        self.0.get(node).is_some_and(|node| node.states.began_at() <= revision)
    }

    /// Whether a node has been there and well since this revision.
    pub(super) fn was_always_well(&self, node: &str, revision: u64) -> bool {
        let was = |states: &History<State>| {
            states.began_at() <= revision && states.since(revision).all(|state| state.is_well)
        };
        self.0.get(node).is_some_and(|node| was(&node.states))
    }

    /// Since when a node has been there and well.
    pub(super) fn well_since(&self, node: &str) -> Option<Timestamp> {
        self.0.get(node)?.well_since
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
            is_well: all().any(is_ready) && !all().any(is_harmful),
            is_selected: !label(node, labels::SELECTED_FOR_UPDATE).is_empty() || all().any(is_chosen),
        }
    }
}
