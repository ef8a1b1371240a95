//! The structural schemas of custom kinds: what is kept, filled in and refused.
//!
//! A CustomResourceDefinition describes its objects in a restricted OpenAPI v3. Three things follow for each object that comes
//! in, and they are three walks over it: what the schema leaves out is *defaulted*, what it does not know is *pruned*, and
//! what breaks it is *refused*, with the API server's words, because controllers and people read them. The schema is compiled
//! once, when the definition is accepted; a definition that asks for something we do not do is refused there, since a rule
//! silently ignored would let a test pass that fails in production.
//!
//! Type, API version and metadata of an object are the server's own business. Pruning keeps them.

mod causes;
mod compile;
mod complete;
mod default;
mod formats;
mod lists;
mod node;
mod numbers;
mod pattern;
mod prune;
mod validate;

use serde_json::Value;

pub use causes::Cause;
use node::Node;

/// Where the schema sits in its definition, for the causes of one that is refused. The API server writes it like this for a
/// definition with one version.
const IN_DEFINITION: &str = "spec.validation.openAPIV3Schema";

/// A compiled schema. Read-only, so one can serve all requests.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of a definition's version, or says everything that is wrong with it.
    pub fn compile(definition: &Value) -> Result<Self, Vec<Cause>> {
        let root = compile::compile(definition, IN_DEFINITION)?;
        Ok(Self { root })
    }

    /// Drops nulls that stand for "not set" and fills in defaults. Comes before pruning and validation.
    pub fn default(&self, object: &mut Value) {
        default::drop_nulls(object, Some(&self.root));
        default::fill_in(object, Some(&self.root));
    }

    /// Removes what the schema does not know and returns the paths of it, for clients that asked to be told.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(object, &self.root)
    }

    /// What is wrong with the object. On an update, a value that was already there unchanged in `old` is not held against it:
    /// a schema may have become stricter since.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        complaints(object, old, &self.root)
    }

    /// What is wrong with the status of the object, when nothing else of it was written. The paths in the messages begin at the
    /// status, as the API server has it.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let (Some(root), Some(status)) = (self.root.properties.get("status"), object.get("status")) else {
            return Vec::new();
        };
        let causes = complaints(status, old.and_then(|old| old.get("status")), root);
        let within = |field: &str| if field == "<nil>" { "status".to_owned() } else { format!("status.{field}") };
        causes.into_iter().map(|cause| Cause { field: within(&cause.field), ..cause }).collect()
    }
}

fn complaints(object: &Value, old: Option<&Value>, root: &Node) -> Vec<Cause> {
    let mut causes = validate::validate(object, old, root);
    let duplicates = lists::duplicates(object, root);
    // Lists are taken as a whole: once an object has slipped in with a duplicate, it can still be updated.
    if !duplicates.is_empty() && old.is_none_or(|old| lists::duplicates(old, root).is_empty()) {
        causes.extend(duplicates);
    }
    causes
}

#[cfg(test)]
mod tests;
