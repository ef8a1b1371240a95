//! Requests to an API server, as read from its audit log.

use serde_json::Value;

/// One request for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// The user.
    pub(super) who: String,
    pub(super) verb: String,
    pub(super) group: String,
    /// `machines`, `machines/status`.
    pub(super) resource: String,
    /// Empty for cluster-scoped requests.
    pub(super) namespace: String,
    /// Empty for lists and creations.
    pub(super) name: String,
    pub(super) decision: Decision,
}

/// The decision of the authorizer. Later rejections, for example by admission, do not concern roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    Denied,
}

/// Parses an audit log. Non-resource URLs such as `/version` are skipped.
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
    fn a_log_line_is_parsed_into_user_request_and_decision() {
        // As written by kube-apiserver, without unused fields.
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
