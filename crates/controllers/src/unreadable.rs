//! Events about objects that cannot be decoded. Their status is not written, because it cannot be read either.

use api::{Object, names};
use k8s_openapi::api::core::v1::ObjectReference;
use planner::{Event, EventType};
use runtime::cache::UndecodableObject;
use runtime::events::EventSink;

/// Emits an Event that the object is skipped, with the reason.
pub(crate) fn report<K: Object>(events: &EventSink, object: &UndecodableObject) {
    let about = ObjectReference {
        api_version: Some(names::API_VERSION.to_owned()),
        kind: Some(K::kind().into_owned()),
        namespace: Some(object.namespace.clone()),
        name: Some(object.name.clone()),
        uid: Some(object.uid.clone()),
        ..ObjectReference::default()
    };
    let message = format!("failed to decode the object: {}. The object is skipped until it is corrected", object.error);
    let event = Event { event_type: EventType::Warning, reason: names::events::millwright::INVALID, message };
    events.emit(about, event);
}
