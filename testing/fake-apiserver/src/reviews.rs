//! Questions about oneself: who am I, and may I?
//!
//! kubectl asks them (`auth whoami`, `auth can-i`), and so do some clients before they act. There are no roles here: whoever is
//! let in may do everything, and is told so.

use http::Method;
use serde_json::{Value, json};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// The answer to a question about the user; nothing if it was none.
pub(crate) fn answer(method: &Method, path: &str, body: &[u8], user: &str) -> Option<Value> {
    if method != Method::POST || !matches!(path, ACCESS | WHO) {
        return None;
    }
    let mut review: Value = serde_json::from_slice(body).ok()?;
    let review_fields = review.as_object_mut()?;
    let (kind, api_version, status) = if path == ACCESS {
        let status = json!({ "allowed": true, "reason": "all authenticated users have all permissions" });
        ("SelfSubjectAccessReview", "authorization.k8s.io/v1", status)
    } else {
        let groups = ["system:masters", "system:authenticated"];
        let status = json!({ "userInfo": { "username": user, "groups": groups } });
        ("SelfSubjectReview", "authentication.k8s.io/v1", status)
    };
    review_fields.insert("kind".to_owned(), json!(kind));
    review_fields.insert("apiVersion".to_owned(), json!(api_version));
    review_fields.insert("metadata".to_owned(), json!({}));
    review_fields.insert("status".to_owned(), status);
    Some(review)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_grant_every_permission_and_name_the_user() {
        let questions = [
            json!({ "resourceAttributes": { "verb": "get", "resource": "pods" } }),
            json!({ "resourceAttributes": { "verb": "delete", "resource": "secrets", "namespace": "kube-system" } }),
            json!({ "resourceAttributes": { "verb": "*", "group": "*", "resource": "*", "subresource": "status" } }),
            json!({ "nonResourceAttributes": { "verb": "get", "path": "/metrics" } }),
        ];
        for spec in questions {
            let question = json!({ "spec": spec, "status": { "allowed": false } }).to_string();
            let answer = |path, user| answer(&Method::POST, path, question.as_bytes(), user).unwrap();
            let allowed = json!({
                "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": spec,
                "status": { "allowed": true, "reason": "all authenticated users have all permissions" },
            });
            assert_eq!(answer(ACCESS, "jane"), allowed);
            for user in ["jane", "system:serviceaccount:ns:mcm"] {
                let told = answer(WHO, user);
                assert_eq!(
                    (&told["kind"], &told["apiVersion"]),
                    (&json!("SelfSubjectReview"), &json!("authentication.k8s.io/v1"))
                );
                let who =
                    json!({ "userInfo": { "username": user, "groups": ["system:masters", "system:authenticated"] } });
                assert_eq!(told["status"], who);
            }
        }
    }

    #[test]
    fn other_requests_are_no_questions() {
        assert_eq!(answer(&Method::GET, ACCESS, b"{}", ""), None);
        assert_eq!(answer(&Method::POST, "/api/v1/pods", b"{}", ""), None);
        assert_eq!(answer(&Method::POST, WHO, b"", ""), None);
    }
}
