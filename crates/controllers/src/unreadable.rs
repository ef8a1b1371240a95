//! Objects that cannot be read. Their own status cannot be trusted to hold what we write, so an Event has to do.

use api::{Object, names};
use k8s_openapi::api::core::v1::ObjectReference;
use planner::{Event, EventType};
use runtime::cache::UndecodableObject;
use runtime::events::EventSink;

/// Tells, on the object itself, that it is left alone and why.
pub(crate) fn tell<K: Object>(events: &EventSink, object: &UndecodableObject) {
    let about = ObjectReference {
        api_version: Some(names::API_VERSION.to_owned()),
        kind: Some(K::kind().into_owned()),
        namespace: Some(object.namespace.clone()),
        name: Some(object.name.clone()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    };
    let message = format!("it cannot be read, so it is left alone until that is mended: {}", object.error);
    let event = Event { event_type: EventType::Warning, reason: names::events::ours::INVALID, message };
    crate::events::emit(events, about, &event);
}
