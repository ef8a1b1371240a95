//! What a request is about, read from its method and path.

use http::Method;

use crate::faults::Verb;
use crate::query::{Query, decode};

/// A path that names objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Empty for the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The resource, in the plural.
    pub(crate) plural: String,
    /// The namespace, if the path has one.
    pub(crate) namespace: Option<String>,
    /// The object, if the path names one.
    pub(crate) name: Option<String>,
    /// The part of the object, if the path names one.
    pub(crate) subresource: Option<String>,
}

impl Address {
    /// Reads a path like `/apis/machine.sapcloud.io/v1alpha1/namespaces/a/machines/b/status`. Nothing for other paths.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path.split('/').filter(|p| !p.is_empty()).map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // `namespaces/x/status` is a part of the namespace, any other third word is a resource inside of it.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }

    /// The verb of a method here; nothing if the method makes no sense.
    pub(crate) fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        let watching = query.flag("watch") == Some(true);
        match (method.as_str(), self.name.is_some()) {
            // One object is never watched under its own path; the parameter is ignored there.
            ("GET" | "HEAD", true) => Some(Verb::Get),
            ("GET" | "HEAD", false) if watching => Some(Verb::Watch),
            ("GET" | "HEAD", false) => Some(Verb::List),
            ("POST", false) => Some(Verb::Create),
            ("POST", true) if self.subresource.is_some() => Some(Verb::Create),
            ("PUT", true) => Some(Verb::Update),
            ("PATCH", true) => Some(Verb::Patch),
            ("DELETE", true) => Some(Verb::Delete),
            ("DELETE", false) => Some(Verb::DeleteCollection),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/api/v1/nodes", "", "nodes", None, None, None)]
    #[case("/api/v1/namespaces", "", "namespaces", None, None, None)]
    #[case("/api/v1/namespaces/a", "", "namespaces", None, Some("a"), None)]
    #[case("/api/v1/namespaces/a/finalize", "", "namespaces", None, Some("a"), Some("finalize"))]
    #[case("/api/v1/namespaces/a/pods", "", "pods", Some("a"), None, None)]
    #[case("/apis/x.io/v1/namespaces/a/machines/b/status", "x.io", "machines", Some("a"), Some("b"), Some("status"))]
    fn a_path_names_what_it_is_about(
        #[case] path: &str,
        #[case] group: &str,
        #[case] plural: &str,
        #[case] namespace: Option<&str>,
        #[case] name: Option<&str>,
        #[case] subresource: Option<&str>,
    ) {
        let found = Address::parse(path).unwrap();
        assert_eq!((found.group.as_str(), found.plural.as_str()), (group, plural));
        assert_eq!((found.namespace.as_deref(), found.name.as_deref()), (namespace, name));
        assert_eq!(found.subresource.as_deref(), subresource);
    }

    #[rstest]
    #[case("/version")]
    #[case("/api")]
    #[case("/api/v1")]
    #[case("/api/v1/pods/a/log/b")]
    fn other_paths_name_no_objects(#[case] path: &str) {
        assert_eq!(Address::parse(path), None);
    }
}
