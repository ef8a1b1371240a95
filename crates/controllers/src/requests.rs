//! What the requests of all controllers have in common: what they are guarded by, what a refusal means for the key, and how loud a notice is.

use plan::machine::Tone;
use runtime::client::{ApiError, RetryClass};
use runtime::events::Severity;
use runtime::queue::Outcome;
use serde_json::{Value, json};

/// Lets a patch mean the very object and, where a version is given, in the very state that was decided on.
pub(crate) fn guard(patch: &mut Value, uid: &str, resource_version: Option<&str>) {
    let metadata = patch.as_object_mut().map(|patch| patch.entry("metadata").or_insert_with(|| json!({})));
    if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), json!(uid));
        if let Some(version) = resource_version {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
}

/// When to try again: at the server's word where it gave one, else after the queue's own growing pause.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(after) } => Outcome::Again { after },
        _ => Outcome::Failed,
    }
}

/// How an Event says it.
pub(crate) fn severity(tone: Tone) -> Severity {
    match tone {
        Tone::Normal => Severity::Normal,
        Tone::Warning => Severity::Warning,
    }
}
