//! Events, from whoever decided on them to the sink.
//!
//! A planner decides on an [`Event`] and knows no object references; the sink of `runtime` knows no planners. This is the one place where
//! the one becomes the other.

use k8s_openapi::api::core::v1::ObjectReference;
use planner::{Event, EventType};
use runtime::events::EventSink;

/// Emits an Event about an object.
pub(crate) fn emit(sink: &EventSink, about: ObjectReference, event: &Event) {
    let Event { event_type, reason, message } = event;
    let event_type = match event_type {
        EventType::Normal => runtime::events::EventType::Normal,
        EventType::Warning => runtime::events::EventType::Warning,
    };
    sink.emit(runtime::events::Event { about, event_type, reason: (*reason).into(), message: message.clone() });
}
