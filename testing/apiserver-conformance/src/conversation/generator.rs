//! What to ask next.
//!
//! Three kinds, three names, so that requests meet: most of what can go wrong between two writers goes wrong on an object that
//! already exists, with a version that is no longer the newest. Owner references are left out, since on a real server somebody else
//! acts on them at a moment of their own.

use std::collections::BTreeMap;

use runtime::Random;
use serde_json::{Value, json};

use super::Request;
use super::values::{data, metadata, once_in, one, spec, status};

/// Makes up requests; the same seed and the same answers give the same ones.
pub(super) struct Generator {
    random: Random,
    /// What is known of an object: its uids and versions, in the order in which they were seen.
    seen: BTreeMap<(Kind, &'static str), RecordedVersions>,
}

#[derive(Default)]
struct RecordedVersions {
    uids: Vec<Value>,
    versions: Vec<Value>,
    newest: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    ConfigMap,
    Secret,
    Widget,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Self::ConfigMap => "/api/v1/namespaces/<namespace>/configmaps",
            Self::Secret => "/api/v1/namespaces/<namespace>/secrets",
            Self::Widget => "/apis/<namespace>.example.com/v1/namespaces/<namespace>/widgets",
        }
    }

    fn types(self) -> (&'static str, &'static str) {
        match self {
            Self::ConfigMap => ("v1", "ConfigMap"),
            Self::Secret => ("v1", "Secret"),
            Self::Widget => ("<namespace>.example.com/v1", "Widget"),
        }
    }
}

impl Generator {
    pub(super) fn seeded(seed: u64) -> Self {
        Self { random: Random::seeded(seed), seen: BTreeMap::new() }
    }

    /// Takes note of what came back, for requests that name a uid or a version.
    pub(super) fn hear(&mut self, ask: &Request, answer: &Value) {
        let kinds = [Kind::ConfigMap, Kind::Secret, Kind::Widget];
        let kind = kinds.into_iter().find(|kind| ask.path.starts_with(kind.path()));
        let name = NAMES.into_iter().find(|name| answer["metadata"]["name"] == *name);
        // A dry run answers with what is not there, nor will be.
        if let (Some(kind), Some(name), false) = (kind, name, ask.path.contains("dryRun")) {
            let seen = self.seen.entry((kind, name)).or_default();
            for (list, field) in [(&mut seen.uids, "uid"), (&mut seen.versions, "resourceVersion")] {
                let value = &answer["metadata"][field];
                if value.is_string() && !list.contains(value) {
                    list.push(value.clone());
                }
            }
            seen.newest = answer.clone();
            // Times are not written back: everybody's are different.
            for field in ["creationTimestamp", "deletionTimestamp"] {
                seen.newest["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
            }
        }
    }

    pub(super) fn request(&mut self) -> Request {
        let kind = [Kind::ConfigMap, Kind::Secret, Kind::Widget, Kind::Widget, Kind::Widget][self.below(5)];
        let name = NAMES[self.below(NAMES.len())];
        match self.below(20) {
            0..5 => self.create(kind, name),
            5..8 => self.replace(kind, name),
            8..11 => self.merge(kind, name),
            11..13 => self.patch(kind, name),
            13..15 if kind == Kind::Widget => self.status(name),
            13..15 => self.strategic(kind, name),
            15..17 => self.delete(kind, name),
            17 => self.delete_many(kind),
            18 => Request::bare("GET", format!("{}/{name}", kind.path())),
            _ => self.list(kind),
        }
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(end).unwrap_or(u64::MAX))).unwrap_or_default()
    }

    /// What follows the path of a write: now and then a wish.
    fn wishes(&self) -> String {
        let wishes = [
            "",
            "",
            "",
            "",
            "",
            "",
            "?dryRun=All",
            "?fieldValidation=Strict",
            "?fieldValidation=Ignore",
            "?fieldValidation=Odd",
            "?dryRun=Odd",
        ];
        wishes[self.below(wishes.len())].to_owned()
    }

    fn object(&self, kind: Kind, name: &str) -> Value {
        let (version, word) = kind.types();
        let mut metadata = metadata(&self.random);
        metadata.insert("name".to_owned(), json!(name));
        let mut object = json!({"apiVersion": version, "kind": word, "metadata": metadata});
        match kind {
            Kind::Widget => {
                object["spec"] = spec(&self.random);
                if once_in(&self.random, 4) {
                    object["status"] = status(&self.random);
                }
            }
            Kind::ConfigMap | Kind::Secret => {
                object["data"] = data(&self.random);
                if once_in(&self.random, 10) {
                    object["immutable"] = json!(true);
                }
                if kind == Kind::Secret && once_in(&self.random, 5) {
                    object["stringData"] = json!({"k": "text"});
                }
            }
        }
        object
    }

    fn create(&self, kind: Kind, name: &str) -> Request {
        let mut object = self.object(kind, name);
        if once_in(&self.random, 20) {
            object["kind"] = json!("Odd");
        }
        Request::new("POST", format!("{}{}", kind.path(), self.wishes()), object)
    }

    /// Puts a version and a uid into metadata that may be right, old, wrong or missing.
    fn guard(&self, kind: Kind, name: &'static str, metadata: &mut Value) {
        let nothing = RecordedVersions::default();
        let seen = self.seen.get(&(kind, name)).unwrap_or(&nothing);
        match self.below(6) {
            0..3 => {
                if let Some(newest) = seen.versions.last() {
                    metadata["resourceVersion"] = newest.clone();
                }
            }
            3 => metadata["resourceVersion"] = one(&self.random, &seen.versions),
            _ => {}
        }
        if once_in(&self.random, 8) {
            metadata["uid"] = one(&self.random, &seen.uids);
        }
    }

    fn replace(&self, kind: Kind, name: &'static str) -> Request {
        let newest = self.seen.get(&(kind, name)).map(|seen| seen.newest.clone()).filter(|_| once_in(&self.random, 3));
        let mut object = newest.unwrap_or_else(|| self.object(kind, name));
        self.guard(kind, name, &mut object["metadata"]);
        Request::new("PUT", format!("{}/{name}{}", kind.path(), self.wishes()), object)
    }

    /// A fragment that changes an object, removes parts of it or spoils it.
    fn fragment(&self, kind: Kind, name: &'static str) -> Value {
        let mut fragment = json!({});
        if once_in(&self.random, 2) {
            fragment["metadata"] = Value::Object(metadata(&self.random));
            if once_in(&self.random, 4) {
                self.guard(kind, name, &mut fragment["metadata"]);
            }
        }
        if once_in(&self.random, 2) {
            match kind {
                Kind::Widget => fragment["spec"] = spec(&self.random),
                Kind::ConfigMap | Kind::Secret => fragment["data"] = data(&self.random),
            }
        }
        let removals = [
            json!({"metadata": {"finalizers": null}}),
            json!({"metadata": {"labels": null}}),
            json!({"metadata": {"labels": {"pool": null}}}),
            json!({"spec": null}),
            json!({"metadata": {"name": "other"}}),
            json!({"metadata": null}),
            json!({"kind": "Odd"}),
        ];
        if once_in(&self.random, 4) { one(&self.random, &removals) } else { fragment }
    }

    fn merge(&self, kind: Kind, name: &'static str) -> Request {
        let path = format!("{}/{name}{}", kind.path(), self.wishes());
        Request::of("PATCH", path, self.fragment(kind, name), "application/merge-patch+json")
    }

    fn strategic(&self, kind: Kind, name: &'static str) -> Request {
        let directives = [
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
            json!({"metadata": {"finalizers": ["example.com/b"]}}),
            json!({"data": {"$patch": "replace", "only": "dg=="}}),
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            json!({"$retainKeys": ["metadata"], "metadata": {}}),
        ];
        let body = if once_in(&self.random, 2) { one(&self.random, &directives) } else { self.fragment(kind, name) };
        Request::of("PATCH", format!("{}/{name}", kind.path()), body, "application/strategic-merge-patch+json")
    }

    fn patch(&self, kind: Kind, name: &'static str) -> Request {
        let field = if kind == Kind::Widget { "/spec" } else { "/data" };
        let steps = [
            json!({"op": "test", "path": "/metadata/name", "value": name}),
            json!({"op": "test", "path": "/metadata/labels/pool", "value": "x"}),
            json!({"op": "add", "path": "/metadata/labels", "value": {"pool": "z"}}),
            json!({"op": "add", "path": "/metadata/labels/pool", "value": "x"}),
            json!({"op": "replace", "path": "/metadata/labels/pool", "value": "y"}),
            json!({"op": "remove", "path": "/metadata/labels/pool"}),
            json!({"op": "remove", "path": "/metadata/finalizers"}),
            json!({"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"}),
            json!({"op": "remove", "path": "/metadata/finalizers/0"}),
            json!({"op": "add", "path": field, "value": {}}),
            json!({"op": "add", "path": format!("{field}/k"), "value": "dg=="}),
            json!({"op": "remove", "path": format!("{field}/k")}),
            json!({"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}),
            json!({"op": "move", "from": "/metadata/annotations", "path": "/metadata/labels"}),
            json!({"op": "add", "path": "/spec/replicas", "value": 3}),
            json!({"op": "replace", "path": "/spec/zones/0", "value": "z"}),
            json!({"op": "odd", "path": "/metadata/labels"}),
            json!({"op": "add", "path": "metadata", "value": 1}),
        ];
        let steps: Vec<Value> = (0..=self.below(2)).map(|_| one(&self.random, &steps)).collect();
        let path = format!("{}/{name}{}", kind.path(), self.wishes());
        Request::of("PATCH", path, json!(steps), "application/json-patch+json")
    }

    fn status(&self, name: &'static str) -> Request {
        let path = format!("{}/{name}/status", Kind::Widget.path());
        if once_in(&self.random, 2) {
            let mut fragment = json!({"status": status(&self.random)});
            if once_in(&self.random, 2) {
                fragment["metadata"] = Value::Object(metadata(&self.random));
            }
            return Request::of("PATCH", path, fragment, "application/merge-patch+json");
        }
        let mut object = self.object(Kind::Widget, name);
        object["status"] = status(&self.random);
        self.guard(Kind::Widget, name, &mut object["metadata"]);
        Request::new("PUT", path, object)
    }

    fn delete(&self, kind: Kind, name: &'static str) -> Request {
        let path = format!("{}/{name}", kind.path());
        let mut preconditions = json!({});
        self.guard(kind, name, &mut preconditions);
        let options = [
            json!({}),
            json!({"preconditions": preconditions}),
            json!({"preconditions": preconditions}),
            json!({"gracePeriodSeconds": 0}),
            json!({"propagationPolicy": "Background"}),
            json!({"propagationPolicy": "Odd"}),
            json!({"dryRun": ["All"]}),
            json!({"preconditions": {"uid": "somebody-else"}}),
            json!({"gracePeriodSeconds": -1}),
        ];
        match self.below(3) {
            0 => Request::bare("DELETE", path),
            _ => Request::new("DELETE", path, one(&self.random, &options)),
        }
    }

    fn delete_many(&self, kind: Kind) -> Request {
        let selectors = ["labelSelector=pool%3Dx", "labelSelector=pool", "labelSelector=pool%20in%20(x,z)"];
        Request::bare("DELETE", format!("{}?{}", kind.path(), selectors[self.below(selectors.len())]))
    }

    fn list(&self, kind: Kind) -> Request {
        let queries = [
            "labelSelector=pool",
            "labelSelector=pool%3Dx",
            "labelSelector=pool!%3Dx,ours",
            "labelSelector=pool%20notin%20(x)&fieldSelector=metadata.name%3Da",
            "fieldSelector=metadata.name!%3Da",
            "fieldSelector=metadata.name%3Db",
            "labelSelector=%3D",
            "fieldSelector=spec.odd%3D1",
            "labelSelector=pool&limit=1",
            "limit=x",
            "labelSelector=pool&resourceVersion=0",
        ];
        // Every namespace of a real server has a config map that nobody asked for, which pages would count.
        let query = queries[self.below(queries.len())];
        let query = if kind == Kind::ConfigMap { query.trim_end_matches("&limit=1") } else { query };
        Request::bare("GET", format!("{}?{query}", kind.path()))
    }
}

impl Request {
    fn bare(method: &str, path: String) -> Self {
        Self { method: method.to_owned(), path, body: None, sort: super::plain_json() }
    }

    fn new(method: &str, path: String, body: Value) -> Self {
        Self { body: Some(body), ..Self::bare(method, path) }
    }

    fn of(method: &str, path: String, body: Value, sort: &str) -> Self {
        Self { sort: sort.to_owned(), ..Self::new(method, path, body) }
    }
}
