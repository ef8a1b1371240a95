//! URL patterns of requests, for metric labels.
//!
//! A metric labelled with the URL of a request would have a series for every Machine that ever existed. Therefore
//! names, namespaces and query values are replaced by placeholders. The form is that of client-go (percent-encoded
//! braces), because dashboards group by it.

use std::collections::BTreeSet;

const NAMESPACE: &str = "%7Bnamespace%7D";
const NAME: &str = "%7Bname%7D";

/// Returns the path and query of a request to the API, with placeholders.
pub(crate) fn pattern(uri: &http::Uri) -> String {
    let mut segments: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let resource = match segments.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        // /version, /healthz and the like contain no names; longer paths are not requested by this client.
        _ if segments.len() <= 1 => segments.len(),
        _ => return "/%7Bprefix%7D".to_owned(),
    };
    let namespaced = segments.get(resource) == Some(&"namespaces") && segments.len() > resource + 2;
    let status_of_a_namespace = matches!(segments.get(resource + 2), Some(&"status" | &"finalize"));
    let name = if namespaced && !status_of_a_namespace {
        replace(&mut segments, resource + 1, NAMESPACE);
        resource + 3
    } else {
        resource + 1
    };
    replace(&mut segments, name, NAME);

    let mut text = format!("/{}", segments.join("/"));
    let keys: BTreeSet<&str> =
        uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split('=').next()).collect();
    let mut mark = '?';
    for key in keys.into_iter().filter(|key| !key.is_empty()) {
        text.push(mark);
        text.push_str(key);
        text.push_str("=%7Bvalue%7D");
        mark = '&';
    }
    text
}

fn replace<'a>(segments: &mut [&'a str], index: usize, placeholder: &'a str) {
    if let Some(segment) = segments.get_mut(index) {
        *segment = placeholder;
    }
}

/// Returns whether a request opens a watch, which has no end to wait for.
pub(crate) fn is_watch(uri: &http::Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("/api/v1/nodes", "/api/v1/nodes")]
    #[case("/api/v1/nodes/n1", "/api/v1/nodes/%7Bname%7D")]
    #[case("/api/v1/nodes/n1/status", "/api/v1/nodes/%7Bname%7D/status")]
    #[case("/api/v1/namespaces/shoot", "/api/v1/namespaces/%7Bname%7D")]
    #[case("/api/v1/namespaces/shoot/status", "/api/v1/namespaces/%7Bname%7D/status")]
    #[case("/api/v1/namespaces/shoot/pods", "/api/v1/namespaces/%7Bnamespace%7D/pods")]
    #[case("/api/v1/namespaces/a/pods/p/eviction", "/api/v1/namespaces/%7Bnamespace%7D/pods/%7Bname%7D/eviction")]
    #[case("/apis/g/v1/namespaces/a/machines/m", "/apis/g/v1/namespaces/%7Bnamespace%7D/machines/%7Bname%7D")]
    #[case(
        "/apis/g/v1/namespaces/a/machines?&watch=true&limit=5&watch=true",
        "/apis/g/v1/namespaces/%7Bnamespace%7D/machines?limit=%7Bvalue%7D&watch=%7Bvalue%7D"
    )]
    #[case("/apis/apps/v1", "/apis/apps/v1")]
    #[case("/version?timeout=32s", "/version?timeout=%7Bvalue%7D")]
    #[case("/apis", "/apis")]
    #[case("/metrics/of/others", "/%7Bprefix%7D")]
    fn names_become_placeholders(#[case] address: &str, #[case] expected: &str) {
        assert_eq!(pattern(&address.parse().unwrap()), expected);
    }

    #[rstest]
    #[case("/api/v1/nodes?watch=true", true)]
    #[case("/api/v1/nodes?a=b&watch=1", true)]
    #[case("/api/v1/nodes?watch=false", false)]
    #[case("/api/v1/nodes/watch", false)]
    #[case("/api/v1/nodes?fieldSelector=watch%3Dtrue", false)]
    fn a_watch_is_told_by_its_query(#[case] address: &str, #[case] expected: bool) {
        assert_eq!(is_watch(&address.parse().unwrap()), expected);
    }
}
