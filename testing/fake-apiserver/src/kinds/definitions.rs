//! Definitions of custom resources, and the resources that they define.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::meta;
use crate::resource::{
    BlindUpdate, DeleteAnswer, Dependents, Generation, NameRule, PutOfMissing, Resource, Rules, Scope, StatusWrites,
    qualify,
};
use crate::schema::{Cause, Schema};
use crate::selector::FieldPaths;
use crate::verbs::scale;

/// The name under which definitions are stored.
pub(crate) const STORED_AS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// What is special about definitions: their names are accepted and they are established at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definitions;

impl Rules for Definitions {
    fn complete_new(&self, object: &mut Value, now: Timestamp) {
        complete_names(object);
        let names = object.pointer("/spec/names").cloned().unwrap_or_default();
        let stored = versions(object).filter(|v| v.get("storage") == Some(&Value::Bool(true)));
        let stored: Vec<Value> = stored.filter_map(|v| v.get("name").cloned()).collect();
        let condition = |kind: &str, reason: &str, message: &str| {
            let at = meta::time(now);
            json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at })
        };
        let status = json!({
            "acceptedNames": names,
            "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
            "storedVersions": stored,
        });
        if let Some(object) = object.as_object_mut() {
            object.insert("status".to_owned(), status);
        }
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        complete_names(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let required = ["/spec/group", "/spec/names/plural", "/spec/names/kind", "/spec/scope"];
        for path in required.into_iter().filter(|path| text(path).is_empty()) {
            causes.push(Cause::required(path.trim_start_matches('/').replace('/', "."), ""));
        }
        let expected = format!("{}.{}", text("/spec/names/plural"), text("/spec/group"));
        if meta::name(object) != expected {
            let rule = "must be spec.names.plural+\".\"+spec.group";
            causes.push(Cause::invalid("metadata.name", &Value::from(meta::name(object)), rule));
        }
        let storage = versions(object).filter(|v| v.get("storage") == Some(&Value::Bool(true))).count();
        if storage != 1 {
            let rule = "must have exactly one version marked as storage version";
            let found = object.pointer("/spec/versions").cloned().unwrap_or_default();
            causes.push(Cause::invalid("spec.versions", &found, rule));
        }
        for (index, version) in versions(object).enumerate() {
            match version.pointer("/schema/openAPIV3Schema") {
                None => {
                    let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
                    causes.push(Cause::required(path, "schemas are required"));
                }
                Some(schema) => causes.extend(Schema::compile(schema).err().unwrap_or_default()),
            }
        }
        causes
    }
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

fn complete_names(definition: &mut Value) {
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    }
    let Some(names) = definition.pointer_mut("/spec/names").and_then(Value::as_object_mut) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    names.entry("singular").or_insert_with(|| Value::from(kind.to_lowercase()));
    names.entry("listKind").or_insert_with(|| Value::from(format!("{kind}List")));
}

/// The resources that a definition adds, one for each version that is served.
pub(crate) fn resources(definition: &Value) -> Vec<Resource> {
    let served = versions(definition).filter(|v| v.get("served") == Some(&Value::Bool(true)));
    served.filter_map(|version| resource(definition, version)).collect()
}

fn resource(definition: &Value, version: &Value) -> Option<Resource> {
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let texts = |path: &str| {
        let list = definition.pointer(path).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let schema = Schema::compile(version.pointer("/schema/openAPIV3Schema")?).ok()?;
    let selectable = version.get("selectableFields").and_then(Value::as_array);
    let selectable = selectable.into_iter().flatten().filter_map(|f| f.get("jsonPath").and_then(Value::as_str));
    let plural_of_group = qualify(&text("/spec/names/plural"), &text("/spec/group"));
    let scale = version.pointer("/subresources/scale").and_then(scale::Paths::of_custom);
    let with_status = version.pointer("/subresources/status").is_some_and(Value::is_object);
    Some(Resource {
        qualified: plural_of_group.clone(),
        stored_as: plural_of_group,
        dialect: &[],
        group: text("/spec/group"),
        version: version.get("name").and_then(Value::as_str)?.to_owned(),
        kind: text("/spec/names/kind"),
        list_kind: text("/spec/names/listKind"),
        plural: text("/spec/names/plural"),
        singular: text("/spec/names/singular"),
        short_names: texts("/spec/names/shortNames"),
        categories: texts("/spec/names/categories"),
        scope: if text("/spec/scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        generation: Generation::FollowsSpec,
        status: if with_status { StatusWrites::StatusOnly } else { StatusWrites::NoSubresource },
        blind_update: BlindUpdate::Refused,
        put_of_missing: PutOfMissing::Refused,
        delete_answer: DeleteAnswer::Status,
        names: NameRule::Subdomain,
        fields: FieldPaths::of_custom(selectable),
        dependents: Dependents::Collected,
        subresources: Vec::new(),
        readable: |_| Ok(()),
        rules: Arc::new(Custom { schema, scale: scale.clone() }),
        scale,
        custom: true,
        kind_type: None,
        defined_by: Some(Arc::new(version.clone())),
    })
}

/// What is special about custom resources: all that is known of them is their schema.
#[derive(Debug)]
struct Custom {
    schema: Schema,
    scale: Option<scale::Paths>,
}

impl Rules for Custom {
    fn prune(&self, object: &mut Value) -> Vec<String> {
        self.schema.prune(object)
    }

    fn complete_new(&self, object: &mut Value, _now: Timestamp) {
        self.schema.default(object);
    }

    fn complete_changed(&self, object: &mut Value, _old: &Value, _now: Timestamp) {
        self.schema.default(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.schema.validate(object, old);
        causes.extend(self.scale.iter().filter_map(|scale| scale.wrong_wish(object)));
        causes
    }

    fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.schema.validate_status(object, old);
        causes.extend(self.scale.iter().filter_map(|scale| scale.wrong_count(object)));
        causes
    }
}
