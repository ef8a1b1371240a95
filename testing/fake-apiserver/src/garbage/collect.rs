//! What becomes of one object, by the owners it names and the dependents that name it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Collector;
use super::graph::{DeletionState, Node, Owner, Uid, deletion_state, owners};
use crate::meta;
use crate::query::Query;
use crate::resource::Resource;
use crate::state::{Effect, State};
use crate::verbs::delete::{FOREGROUND, ORPHAN, Options, Propagation, remove};
use crate::verbs::{Call, Part};

/// What an entry in the list of owners is worth.
enum Worth {
    /// The owner is there.
    Solid,
    /// The owner is there, but it only waits for its dependents to go.
    Waiting,
    /// There is no such owner.
    Dangling,
    /// The owner is of a kind that nobody serves.
    Unknown,
    /// The owner lives in a namespace and this object in none: such an entry means nothing, now or ever.
    Impossible,
}

/// An object under the eyes of the collector.
struct Item {
    uid: Uid,
    resource: Arc<Resource>,
    node: Node,
    object: Arc<Value>,
}

impl Collector {
    /// Looks at one object as it is now, and does what has to be done about it.
    pub(super) fn look_at(&mut self, state: &mut State, uid: &str, now: Timestamp) {
        let Some(item) = self.item(state, uid) else { return };
        match deletion_state(&item.object) {
            DeletionState::AwaitsForgetting => self.orphan_dependents(state, &item, now),
            DeletionState::AwaitsDependents => self.await_dependents(state, &item, now),
            DeletionState::Leaving => {}
            DeletionState::Alive => self.weigh_owners(state, &item, now),
        }
    }

    fn orphan_dependents(&mut self, state: &mut State, item: &Item, now: Timestamp) {
        for uid in self.graph.dependents_of(&item.uid) {
            let Some(dependent) = self.item(state, &uid) else { continue };
            dependent.rewrite_owners(state, now, |owner| (owner_uid(owner) != item.uid).then(|| owner.clone()));
        }
        item.drop_finalizer(state, ORPHAN, now);
    }

    fn await_dependents(&mut self, state: &mut State, item: &Item, now: Timestamp) {
        let dependents = self.graph.dependents_of(&item.uid);
        let blocking = |uid: &Uid| {
            let owners = self.graph.node(uid).map(|node| node.owners.as_slice()).unwrap_or_default();
            owners.iter().any(|owner| owner.uid == item.uid && owner.blocks)
        };
        if dependents.iter().any(blocking) {
            let alive = |uid: &Uid| self.graph.node(uid).is_some_and(|node| node.deletion == DeletionState::Alive);
            let alive: Vec<Uid> = dependents.into_iter().filter(alive).collect();
            self.graph.enqueue(alive);
        } else {
            item.drop_finalizer(state, FOREGROUND, now);
            // Those nobody had to wait for are looked at when the owner is gone.
        }
    }

    fn weigh_owners(&mut self, state: &mut State, item: &Item, now: Timestamp) {
        let (mut solid, mut useless, mut waiting) = (0, Vec::new(), 0);
        for owner in owners(&item.object) {
            match self.worth(state, item, &owner) {
                Worth::Solid => solid += 1,
                Worth::Dangling => useless.push(owner.uid),
                Worth::Waiting => {
                    waiting += 1;
                    useless.push(owner.uid);
                }
                Worth::Unknown => {
                    self.unresolved.insert(item.uid.clone());
                    return;
                }
                Worth::Impossible => return,
            }
        }
        if solid > 0 {
            // Somebody keeps it. Entries of owners that go are dropped, or those would wait for it for ever.
            let stays = |owner: &Value| (!useless.iter().any(|uid| owner_uid(owner) == uid)).then(|| owner.clone());
            item.rewrite_owners(state, now, stays);
        } else if useless.is_empty() {
            // It never had an owner.
        } else if waiting > 0 && !self.graph.dependents_of(&item.uid).is_empty() {
            self.break_circle(state, item, now);
            item.delete(state, Propagation::Foreground, now);
        } else {
            let has = |finalizer: &str| meta::finalizers(&item.object).contains(&finalizer);
            let propagation = match (has(ORPHAN), has(FOREGROUND)) {
                (true, _) => Propagation::Orphan,
                (_, true) => Propagation::Foreground,
                _ => Propagation::Background,
            };
            item.delete(state, propagation, now);
        }
    }

    /// Two objects that own each other would wait for each other; the one that is looked at gives in.
    fn break_circle(&self, state: &mut State, item: &Item, now: Timestamp) {
        let dependents = self.graph.dependents_of(&item.uid);
        let waits =
            |uid: &Uid| self.graph.node(uid).is_some_and(|node| node.deletion == DeletionState::AwaitsDependents);
        if dependents.iter().any(waits) {
            item.rewrite_owners(state, now, |owner| {
                let mut owner = owner.clone();
                if let Some(owner) = owner.as_object_mut() {
                    owner.insert("blockOwnerDeletion".to_owned(), json!(false));
                }
                Some(owner)
            });
        }
    }

    fn worth(&self, state: &State, item: &Item, owner: &Owner) -> Worth {
        if self.graph.is_gone(&owner.uid) {
            return Worth::Dangling;
        }
        let mut kinds = state.catalog.all();
        let served = kinds.find(|r| r.kind == owner.kind && r.api_version() == owner.api_version);
        let Some(kind) = served else { return Worth::Unknown };
        let namespace = if kind.is_namespaced() { &*item.node.key.namespace } else { "" };
        if kind.is_namespaced() && namespace.is_empty() {
            return Worth::Impossible;
        }
        let key = crate::store::Key::new(namespace, &owner.name);
        match state.get(kind, &key).filter(|found| meta::uid(found) == owner.uid) {
            None => Worth::Dangling,
            Some(found) if deletion_state(found) == DeletionState::AwaitsDependents => Worth::Waiting,
            Some(_) => Worth::Solid,
        }
    }

    fn item(&self, state: &State, uid: &str) -> Option<Item> {
        let node = self.graph.node(uid).cloned()?;
        let resource = state.catalog.stored_as(&node.kind).cloned()?;
        let object = state.get(&resource, &node.key).filter(|o| meta::uid(o) == uid).cloned()?;
        Some(Item { uid: uid.to_owned(), resource, node, object })
    }
}

fn owner_uid(owner: &Value) -> &str {
    owner.get("uid").and_then(Value::as_str).unwrap_or_default()
}

impl Item {
    fn delete(&self, state: &mut State, propagation: Propagation, now: Timestamp) {
        let call = Call {
            resource: self.resource.clone(),
            namespace: Some(self.node.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
            name: Some(self.node.key.name.to_string()),
            part: Part::Whole,
            query: Query::default(),
            now,
        };
        // It was there a moment ago, under the same lock.
        let _begun = remove(state, &call, &self.node.key, &Options::collecting(&self.object, propagation));
    }

    /// Changes the list of owners entry by entry. The entries stay as they are but for what is changed: they may say things
    /// that nobody here knows.
    fn rewrite_owners(&self, state: &mut State, now: Timestamp, keep: impl Fn(&Value) -> Option<Value>) {
        let mut object = self.object.as_ref().clone();
        let owners = meta::get(&object, "ownerReferences").and_then(Value::as_array);
        let owners: Vec<Value> = owners.into_iter().flatten().filter_map(keep).collect();
        if owners.is_empty() {
            meta::unset(&mut object, "ownerReferences");
        } else {
            meta::set(&mut object, "ownerReferences", owners);
        }
        if object != *self.object {
            state.put(&self.resource, self.node.key.clone(), object, now, Effect::Real);
        }
    }

    fn drop_finalizer(&self, state: &mut State, finalizer: &str, now: Timestamp) {
        let Some(object) = state.get(&self.resource, &self.node.key) else { return };
        let mut object = object.as_ref().clone();
        let left =
            meta::finalizers(&object).into_iter().filter(|f| *f != finalizer).map(Value::from).collect::<Vec<_>>();
        if left.is_empty() {
            meta::unset(&mut object, "finalizers");
        } else {
            meta::set(&mut object, "finalizers", left);
        }
        state.settle(&self.resource, &self.node.key, object, now);
    }
}
