//! Encodes spans in the part of the OpenTelemetry protocol (version 1, `ExportTraceServiceRequest`) that is used here.
//!
//! The dozen small messages are written by hand. The protocol is stable, and the processors, contexts and id generators
//! of an SDK do not fit this use (ADR 0043, 0069). A test decodes the messages with the types of the OpenTelemetry
//! project.

use jiff::Timestamp;
use prost::Message;

use super::span::{Attribute, Event, Kind, Span, Status, Value};

/// Identity of this process, for every span.
pub(super) struct Service {
    pub(super) version: &'static str,
    pub(super) instance: String,
}

/// Returns the body of a request with these spans.
pub(super) fn body(service: &Service, spans: &[Span]) -> Vec<u8> {
    let resource = [
        ("service.name", Value::from("millwright")),
        ("service.version", Value::from(service.version)),
        ("service.instance.id", Value::from(service.instance.as_str())),
    ];
    let scope = wire::Scope { name: "millwright".to_owned(), version: service.version.to_owned() };
    let spans = wire::ScopeSpans { scope: Some(scope), spans: spans.iter().map(span).collect() };
    let resource = wire::Resource { attributes: attributes(&resource) };
    let all = wire::ResourceSpans { resource: Some(resource), scope_spans: vec![spans] };
    wire::Request { resource_spans: vec![all] }.encode_to_vec()
}

/// Returns how many spans the collector rejected, and its error message.
pub(super) fn rejected(answer: &[u8]) -> Option<(u64, String)> {
    let partial = wire::Response::decode(answer).ok()?.partial_success?;
    let count = u64::try_from(partial.rejected_spans).ok().filter(|count| *count > 0)?;
    Some((count, partial.error_message))
}

fn span(span: &Span) -> wire::Span {
    wire::Span {
        trace_id: span.trace.0.to_vec(),
        id: span.id.0.to_vec(),
        parent_id: span.parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        name: span.name.to_owned(),
        kind: match span.kind {
            Kind::Internal => 1,
            Kind::Client => 3,
        },
        start_time_unix_nano: nanoseconds(span.start),
        end_time_unix_nano: nanoseconds(span.end.max(span.start)),
        attributes: attributes(&span.attributes),
        events: span.events.iter().map(event).collect(),
        dropped_events_count: span.events_left_out,
        status: Some(match &span.status {
            Status::Unset => wire::Status::default(),
            Status::Ok => wire::Status { message: String::new(), code: 1 },
            Status::Error(why) => wire::Status { message: why.clone(), code: 2 },
        }),
        flags: 1, // sampled
    }
}

fn event(event: &Event) -> wire::Event {
    wire::Event {
        time_unix_nano: nanoseconds(event.at),
        name: event.name.clone(),
        attributes: attributes(&event.attributes),
    }
}

fn attributes(all: &[Attribute]) -> Vec<wire::KeyValue> {
    let value = |value: &Value| match value {
        Value::Text(text) => wire::any::Value::Text(text.clone()),
        Value::Number(number) => wire::any::Value::Number(*number),
    };
    let pair = |(key, v): &Attribute| wire::KeyValue {
        key: (*key).to_owned(),
        value: Some(wire::Any { value: Some(value(v)) }),
    };
    all.iter().map(pair).collect()
}

fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}

/// The messages of the protocol. Only the tags matter for decoders.
mod wire {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Response {
        #[prost(message, optional, tag = "1")]
        pub(super) partial_success: Option<PartialSuccess>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct PartialSuccess {
        #[prost(int64, tag = "1")]
        pub(super) rejected_spans: i64,
        #[prost(string, tag = "2")]
        pub(super) error_message: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct ScopeSpans {
        #[prost(message, optional, tag = "1")]
        pub(super) scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        pub(super) spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Scope {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) version: String,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        pub(super) parent_id: Vec<u8>,
        #[prost(string, tag = "5")]
        pub(super) name: String,
        #[prost(int32, tag = "6")]
        pub(super) kind: i32,
        #[prost(fixed64, tag = "7")]
        pub(super) start_time_unix_nano: u64,
        #[prost(fixed64, tag = "8")]
        pub(super) end_time_unix_nano: u64,
        #[prost(message, repeated, tag = "9")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(message, repeated, tag = "11")]
        pub(super) events: Vec<Event>,
        #[prost(uint32, tag = "12")]
        pub(super) dropped_events_count: u32,
        #[prost(message, optional, tag = "15")]
        pub(super) status: Option<Status>,
        #[prost(fixed32, tag = "16")]
        pub(super) flags: u32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Event {
        #[prost(fixed64, tag = "1")]
        pub(super) time_unix_nano: u64,
        #[prost(string, tag = "2")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "3")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Status {
        #[prost(string, tag = "2")]
        pub(super) message: String,
        #[prost(int32, tag = "3")]
        pub(super) code: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<Any>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Any {
        #[prost(oneof = "any::Value", tags = "1, 3")]
        pub(super) value: Option<any::Value>,
    }

    pub(super) mod any {
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub(in super::super) enum Value {
            #[prost(string, tag = "1")]
            Text(String),
            #[prost(int64, tag = "3")]
            Number(i64),
        }
    }
}
