//! Who owns whom, kept up to date write by write, and who has to be looked at because of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::meta;
use crate::store::{Change, ChangeKind, Key};
use crate::verbs::delete::{FOREGROUND, ORPHAN};

/// Tells an object from all others, also from an earlier one of the same name.
pub(super) type Uid = String;

/// An entry in an object's list of owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: Uid,
    /// Whether the owner, deleted in the foreground, has to wait for this object.
    pub(super) blocks: bool,
}

/// How far the deletion of an object has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionState {
    /// It lives.
    Alive,
    /// It waits for its dependents to be gone.
    AwaitsDependents,
    /// It waits for its dependents to forget it.
    AwaitsForgetting,
    /// It waits for something else.
    Leaving,
}

/// An object as the collector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) owners: Vec<Owner>,
    pub(super) deletion: DeletionState,
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    /// Owners that were seen going, as long as somebody still names them.
    gone: BTreeSet<Uid>,
    queue: VecDeque<Uid>,
    queued: BTreeSet<Uid>,
}

impl Graph {
    /// Takes a write in.
    pub(super) fn follow(&mut self, kind: &str, change: &Change) {
        match change.kind {
            ChangeKind::Put => self.insert(kind, &change.key, &change.after),
            ChangeKind::Removed => self.remove(meta::uid(&change.after)),
        }
    }

    /// Takes an object in, new or changed.
    pub(super) fn insert(&mut self, kind: &str, key: &Key, object: &Value) {
        let uid = meta::uid(object).to_owned();
        let node =
            Node { kind: kind.to_owned(), key: key.clone(), owners: owners(object), deletion: deletion_state(object) };
        let old = self.nodes.insert(uid.clone(), node.clone());
        if old.as_ref() == Some(&node) {
            return;
        }
        for owner in old.iter().flat_map(|old| &old.owners).filter(|owner| !node.owners.contains(owner)) {
            // An owner that waits for this object may not have to any more.
            self.enqueue([owner.uid.clone()]);
            if !node.owners.iter().any(|still| still.uid == owner.uid) {
                self.forget_dependent(&owner.uid, &uid);
            }
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if !node.owners.is_empty()
            || matches!(node.deletion, DeletionState::AwaitsDependents | DeletionState::AwaitsForgetting)
        {
            self.enqueue([uid]);
        }
    }

    fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        for owner in &node.owners {
            self.forget_dependent(&owner.uid, uid);
            self.enqueue([owner.uid.clone()]);
        }
        let dependents = self.dependents_of(uid);
        if !dependents.is_empty() {
            self.gone.insert(uid.to_owned());
        }
        self.enqueue(dependents);
    }

    fn forget_dependent(&mut self, owner: &str, uid: &str) {
        let Some(dependents) = self.dependents.get_mut(owner) else { return };
        dependents.remove(uid);
        if dependents.is_empty() {
            self.dependents.remove(owner);
            self.gone.remove(owner);
        }
    }

    /// One object.
    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Those who name an object as their owner.
    pub(super) fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Whether an owner was seen going.
    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Has these objects looked at, each once.
    pub(super) fn enqueue(&mut self, uids: impl IntoIterator<Item = Uid>) {
        for uid in uids {
            if self.queued.insert(uid.clone()) {
                self.queue.push_back(uid);
            }
        }
    }

    /// Whom to look at next.
    pub(super) fn next(&mut self) -> Option<Uid> {
        let uid = self.queue.pop_front()?;
        self.queued.remove(&uid);
        Some(uid)
    }
}

/// The owners that an object names.
pub(super) fn owners(object: &Value) -> Vec<Owner> {
    let references = meta::get(object, "ownerReferences").and_then(Value::as_array);
    let owner = |reference: &Value| {
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Owner {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocks: reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true),
        }
    };
    references.into_iter().flatten().map(owner).collect()
}

/// How far the deletion of an object has come.
pub(super) fn deletion_state(object: &Value) -> DeletionState {
    let finalizers = meta::finalizers(object);
    if !meta::is_deleting(object) {
        DeletionState::Alive
    } else if finalizers.contains(&ORPHAN) {
        DeletionState::AwaitsForgetting
    } else if finalizers.contains(&FOREGROUND) {
        DeletionState::AwaitsDependents
    } else {
        DeletionState::Leaving
    }
}
