//! Objects that cannot be read. Their own status cannot be trusted to hold what we write, so an Event has to do.

use api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use runtime::cache::UndecodableObject;
use runtime::events::{EventSink, Notice, Severity};

/// Tells, on the object itself, that it is left alone and why.
pub(crate) fn tell<K: Resource<DynamicType = ()>>(events: &EventSink, object: &UndecodableObject) {
    let about = ObjectReference {
        api_version: Some(names::API_VERSION.to_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: Some(object.namespace.clone()),
        name: Some(object.name.clone()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    };
    let message = format!("it cannot be read, so it is left alone until that is mended: {}", object.error);
    events.emit(Notice { about, severity: Severity::Warning, reason: names::events::ours::INVALID.into(), message });
}
