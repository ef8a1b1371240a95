//! The permissions that roles grant: verb, kind, namespace and subject.

use std::fmt;

use serde_json::Value;

use super::requests::Request;

/// One permission of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) to: String,
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    /// Limits the permission to this namespace.
    pub(super) namespace: Option<String>,
    /// Limits the permission to the object with this name.
    pub(super) name: Option<String>,
}

impl Grant {
    /// Returns whether this permission allows the request.
    pub(super) fn covers(&self, request: &Request) -> bool {
        self.to == request.who
            && self.verb == request.verb
            && self.group == request.group
            && self.resource == request.resource
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && self.name.as_ref().is_none_or(|name| *name == request.name)
    }

    /// Returns whether this permission includes the other one.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let same = |grant: &Self| [&grant.to, &grant.verb, &grant.group, &grant.resource].map(Clone::clone);
        same(self) == same(other)
            && (self.namespace.is_none() || self.namespace == other.namespace)
            && (self.name.is_none() || self.name == other.name)
    }

    /// Returns whether it contains a wildcard.
    pub(super) fn is_boundless(&self) -> bool {
        [&self.verb, &self.group, &self.resource].iter().any(|word| word.contains('*'))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace, name, .. } = self;
        write!(f, "{verb:<7} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if let Some(name) = name {
            write!(f, " {name}")?;
        }
        match namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => write!(f, " anywhere"),
        }
    }
}

/// Returns all permissions that these roles grant through these bindings; `list` contains both, as kubectl prints them.
pub(super) fn of(list: &Value) -> Vec<Grant> {
    let objects = items(list.get("items"));
    let is_binding = |object: &&&Value| text(object, "/kind").ends_with("RoleBinding");
    objects.iter().filter(is_binding).flat_map(|binding| of_binding(binding, &objects)).collect()
}

fn of_binding(binding: &Value, objects: &[&Value]) -> Vec<Grant> {
    let namespace = binding.pointer("/metadata/namespace").and_then(Value::as_str);
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let is_bound = |object: &&&Value| {
        let place = object.pointer("/metadata/namespace").and_then(Value::as_str);
        text(object, "/kind") == kind
            && text(object, "/metadata/name") == name
            && (kind == "ClusterRole" || place == namespace)
    };
    let rules = objects.iter().filter(is_bound).flat_map(|role| items(role.get("rules")));
    let subjects: Vec<String> = items(binding.get("subjects")).into_iter().map(user).collect();
    let per_rule = |rule: &Value| {
        let names: Vec<Option<String>> = match words(rule, "resourceNames") {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        let mut grants = Vec::new();
        for to in &subjects {
            // Non-resource URLs are reported like kinds. The shipped roles contain none.
            for (address, verb) in pairs(&words(rule, "nonResourceURLs"), &words(rule, "verbs")) {
                let (to, group, namespace, name) = (to.clone(), String::new(), None, None);
                grants.push(Grant { to, verb, group, resource: address, namespace, name });
            }
            for group in words(rule, "apiGroups") {
                for resource in words(rule, "resources") {
                    for verb in words(rule, "verbs") {
                        grants.extend(names.iter().map(|name| Grant {
                            to: to.clone(),
                            verb: verb.clone(),
                            group: group.clone(),
                            resource: resource.clone(),
                            namespace: namespace.map(str::to_owned),
                            name: name.clone(),
                        }));
                    }
                }
            }
        }
        grants
    };
    rules.flat_map(per_rule).collect()
}

/// Returns the user name of a subject.
fn user(subject: &Value) -> String {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => format!("system:serviceaccount:{}:{name}", text(subject, "/namespace")),
        _ => name.to_owned(),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items(list: Option<&Value>) -> Vec<&Value> {
    list.and_then(Value::as_array).into_iter().flatten().collect()
}

fn words(rule: &Value, field: &str) -> Vec<String> {
    items(rule.get(field)).into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn pairs(addresses: &[String], verbs: &[String]) -> Vec<(String, String)> {
    addresses.iter().flat_map(|address| verbs.iter().map(|verb| (address.clone(), verb.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_binding_grants_the_rules_of_its_role_in_its_namespace() {
        let role = |namespace: &str, verbs: &[&str]| {
            json!({
                "kind": "Role", "metadata": { "name": "r", "namespace": namespace },
                "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": verbs }],
            })
        };
        let list = json!({ "items": [
            role("a", &["get", "list"]), role("b", &["delete"]),
            { "kind": "ClusterRole", "metadata": { "name": "c" }, "rules": [
                { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"], "resourceNames": ["x", "y"] },
            ] },
            {
                "kind": "RoleBinding", "metadata": { "name": "r", "namespace": "a" },
                "roleRef": { "kind": "Role", "name": "r" },
                "subjects": [{ "kind": "ServiceAccount", "name": "s", "namespace": "n" }],
            },
            {
                "kind": "ClusterRoleBinding", "metadata": { "name": "c" },
                "roleRef": { "kind": "ClusterRole", "name": "c" }, "subjects": [{ "kind": "User", "name": "jane" }],
            },
        ] });
        let said: Vec<String> = of(&list).iter().map(|grant| format!("{}: {grant}", grant.to)).collect();
        assert_eq!(
            said,
            [
                "system:serviceaccount:n:s: get     secrets in a",
                "system:serviceaccount:n:s: list    secrets in a",
                "jane: get     leases.coordination.k8s.io x anywhere",
                "jane: get     leases.coordination.k8s.io y anywhere",
            ]
        );
    }

    #[test]
    fn a_role_binding_limits_a_cluster_role_to_its_namespace() {
        let list = json!({ "items": [
            { "kind": "ClusterRole", "metadata": { "name": "c" }, "rules": [
                { "apiGroups": [""], "resources": ["pods", "pods/eviction"], "verbs": ["create"] },
                { "nonResourceURLs": ["/healthz"], "verbs": ["get"] },
            ] },
            {
                "kind": "RoleBinding", "metadata": { "name": "c", "namespace": "a" },
                "roleRef": { "kind": "ClusterRole", "name": "c" }, "subjects": [{ "kind": "Group", "name": "g" }],
            },
            // Bound to a role that does not exist.
            {
                "kind": "RoleBinding", "metadata": { "name": "d", "namespace": "a" },
                "roleRef": { "kind": "Role", "name": "c" }, "subjects": [{ "kind": "User", "name": "jane" }],
            },
        ] });
        let said: Vec<String> = of(&list).iter().map(|grant| format!("{}: {grant}", grant.to)).collect();
        let expected = ["g: create  pods in a", "g: create  pods/eviction in a", "g: get     /healthz anywhere"];
        assert_eq!(said, expected);
    }
}
