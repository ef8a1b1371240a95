//! The kinds that are served: those built in and those that definitions in the cluster add.

use std::sync::Arc;

use serde_json::Value;

use crate::kinds::{self, definitions};
use crate::resource::Resource;
use crate::store::Store;
use crate::types::Types;

/// All kinds, in all served versions.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    built_in: Vec<Arc<Resource>>,
    custom: Vec<Defined>,
    types: Arc<Types>,
}

/// What one definition adds.
#[derive(Clone, Debug)]
struct Defined {
    definition: Arc<Value>,
    resources: Vec<Arc<Resource>>,
}

impl Catalog {
    /// The built-in kinds.
    pub(crate) fn built_in() -> Self {
        let types = Types::built_in();
        let mut built_in = kinds::built_in();
        for resource in &mut built_in {
            resource.kind_type = types.of_kind(&resource.group, &resource.version, &resource.kind);
        }
        Self { built_in: built_in.into_iter().map(Arc::new).collect(), custom: Vec::new(), types }
    }

    /// Reads the definitions in the store anew, those that have changed: their schemas are compiled.
    pub(crate) fn refresh(&mut self, store: &Store) {
        let definitions = store.view(definitions::STORED_AS, store.revision(), None, None).unwrap_or_default();
        let known = std::mem::take(&mut self.custom);
        let read = |definition: &Arc<Value>| {
            let same = known.iter().find(|known| Arc::ptr_eq(&known.definition, definition));
            same.cloned().unwrap_or_else(|| Defined {
                resources: definitions::resources(definition).into_iter().map(Arc::new).collect(),
                definition: definition.clone(),
            })
        };
        self.custom = definitions.into_iter().map(|(_, definition)| read(definition)).collect();
    }

    /// Every kind, built-in ones first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.built_in.iter().chain(self.custom.iter().flat_map(|defined| &defined.resources))
    }

    /// The types of the built-in kinds.
    pub(crate) fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// The kind behind a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.all().find(|r| r.plural == plural && r.version == version && r.group == group)
    }

    /// The kind that an object says it is.
    pub(crate) fn of(&self, object: &Value) -> Option<Arc<Resource>> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        self.all().find(|r| r.group == group && r.version == version && r.kind == text("kind")).cloned()
    }

    /// A kind in any of its versions, by the name under which it is stored.
    pub(crate) fn stored_as(&self, qualified: &str) -> Option<&Arc<Resource>> {
        self.all().find(|r| r.stored_as() == qualified)
    }
}
