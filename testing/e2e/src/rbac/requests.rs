//! What was asked of an API server, as its audit log tells it.

use serde_json::Value;

/// One request about objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Who asked.
    pub(super) who: String,
    pub(super) verb: String,
    pub(super) group: String,
    /// `machines`, `machines/status`.
    pub(super) resource: String,
    /// Empty for the whole cluster.
    pub(super) namespace: String,
    /// Empty for many objects, and for one that is being made.
    pub(super) name: String,
    pub(super) decision: Decision,
}

/// What the authorizer said. Whatever refuses later (admission, a precondition) is no matter of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    Denied,
}

/// Reads the lines of an audit log. Addresses that name no kind (`/version`, discovery) are everybody's and left out.
pub(super) fn read(log: &str) -> Vec<Request> {
    log.lines().filter_map(|line| one(&serde_json::from_str(line).ok()?)).collect()
}

fn one(entry: &Value) -> Option<Request> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let resource = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
        (kind, _) if kind.is_empty() => return None,
        (kind, part) if part.is_empty() => kind,
        (kind, part) => format!("{kind}/{part}"),
    };
    let decision = match text("/annotations/authorization.k8s.io~1decision").as_str() {
        "forbid" => Decision::Denied,
        _ => Decision::Allowed,
    };
    Some(Request {
        who: text("/user/username"),
        verb: text("/verb"),
        group: text("/objectRef/apiGroup"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        decision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_who_asked_for_what_and_whether_a_role_allowed_it() {
        // As kube-apiserver wrote it, without what is not looked at.
        let log = r#"{"kind":"Event","level":"Metadata","verb":"patch","user":{"username":"system:serviceaccount:ns:machine-controller","groups":["system:authenticated"]},"objectRef":{"resource":"machines","namespace":"ns","name":"m-1","apiGroup":"machine.sapcloud.io","apiVersion":"v1alpha1","subresource":"status"},"responseStatus":{"metadata":{},"code":200},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"x"}}
{"kind":"Event","verb":"create","user":{"username":"jane"},"objectRef":{"resource":"events","namespace":"default","apiVersion":"v1"},"responseStatus":{"status":"Failure","reason":"Forbidden","code":403},"annotations":{"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""}}
{"kind":"Event","verb":"get","user":{"username":"jane"},"requestURI":"/version","annotations":{"authorization.k8s.io/decision":"allow"}}
half a li"#;
        let [first, second] = read(log).try_into().unwrap();
        let Request { who, verb, group, resource, namespace, name, decision } = first;
        assert_eq!((who.as_str(), verb.as_str()), ("system:serviceaccount:ns:machine-controller", "patch"));
        assert_eq!((group.as_str(), resource.as_str()), ("machine.sapcloud.io", "machines/status"));
        assert_eq!((namespace.as_str(), name.as_str(), decision), ("ns", "m-1", Decision::Allowed));
        assert_eq!((second.group.as_str(), second.decision), ("", Decision::Denied));
    }
}
