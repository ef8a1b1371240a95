//! How objects look on the wire: whole, their metadata only, or as rows of a table.
//!
//! The same stored object is sent to many clients in several forms, so the form is chosen while it is written out and nothing
//! is copied.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http::header::ACCEPT;
use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::failure::Failure;
use crate::query::Query;
use crate::resource::Resource;
use crate::table::{self, Wanted};
use crate::verbs::read::List;

/// The form a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Everything.
    Whole,
    /// `PartialObjectMetadata`.
    Metadata,
    /// Rows and columns, as `kubectl get` shows them.
    Table(Wanted),
}

impl Form {
    /// The first form of an Accept header that is known here.
    pub(crate) fn accepted(headers: &HeaderMap, query: &Query, now: Timestamp) -> Result<Self, Failure> {
        let mut wanted =
            headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).peekable();
        if wanted.peek().is_none() {
            return Ok(Self::Whole);
        }
        match wanted.find_map(FormName::of_media_type).ok_or_else(Failure::not_acceptable)? {
            FormName::Whole => Ok(Self::Whole),
            FormName::Metadata => Ok(Self::Metadata),
            FormName::Table => Wanted::of(query, now).map(Self::Table),
        }
    }

    /// The same form for an event of a watch, at the time of the event.
    pub(crate) fn later(self, now: Timestamp) -> Self {
        match self {
            Self::Table(wanted) => Self::Table(wanted.later(now)),
            other => other,
        }
    }

    /// The same form for a client that has had a first event in it.
    pub(crate) fn continued(self) -> Self {
        match self {
            Self::Table(wanted) => Self::Table(wanted.without_headers()),
            other => other,
        }
    }
}

enum FormName {
    Whole,
    Metadata,
    Table,
}

impl FormName {
    fn of_media_type(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let known = matches!(parts.next()?, "application/json" | "application/*" | "*/*");
        let parameters: Vec<&str> = parts.collect();
        let transformed = parameters.iter().find_map(|p| p.strip_prefix("as="));
        match transformed {
            _ if !known => None,
            None => Some(Self::Whole),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
            Some("Table") if parameters.contains(&"v=v1") && parameters.contains(&"g=meta.k8s.io") => Some(Self::Table),
            Some(_) => None,
        }
    }
}

/// Whether an object says of what kind it is. In lists of built-in kinds it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Typed {
    As { kind: &'static str, api_version: &'static str },
    Asis,
    No,
}

struct Shown<'a> {
    resource: &'a Resource,
    object: &'a Value,
    api_version: &'a str,
    form: Form,
    typed: Typed,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Typed::As { kind, api_version } = self.typed {
            map.serialize_entry("kind", kind)?;
            map.serialize_entry("apiVersion", api_version)?;
        }
        for (field, value) in self.object.as_object().into_iter().flatten() {
            match (field.as_str(), self.form) {
                ("kind" | "apiVersion", _) if self.typed != Typed::Asis => {}
                // A custom resource is served in the version that was asked for, whichever it is stored in.
                ("apiVersion", Form::Whole) => map.serialize_entry(field, self.api_version)?,
                ("metadata", _) => map.serialize_entry(field, value)?,
                (_, Form::Whole) => map.serialize_entry(self.resource.shown(field), value)?,
                (_, Form::Metadata | Form::Table(_)) => {}
            }
        }
        map.end()
    }
}

const PARTIAL: Typed = Typed::As { kind: "PartialObjectMetadata", api_version: "meta.k8s.io/v1" };

/// One object.
pub(crate) fn object(resource: &Resource, form: Form, object: &Value) -> Bytes {
    // A `Status` or a `Scale` is nobody's metadata, and it has a version of its own.
    if object.get("kind").and_then(Value::as_str) != Some(&resource.kind) {
        return bytes(object);
    }
    if let Form::Table(wanted) = form {
        return bytes(&row(resource, wanted, object));
    }
    let typed = if form == Form::Metadata { PARTIAL } else { Typed::Asis };
    bytes(&Shown { resource, object, api_version: &resource.api_version(), form, typed })
}

/// One object as a table of one row.
fn row(resource: &Resource, wanted: Wanted, object: &Value) -> Value {
    let metadata = serde_json::json!({ "resourceVersion": crate::meta::version(object) });
    table::table(resource, wanted, &metadata, std::iter::once(object))
}

/// A page of a list.
pub(crate) fn list(resource: &Resource, form: Form, list: &List) -> Bytes {
    if let Form::Table(wanted) = form {
        let objects = list.items.iter().map(AsRef::as_ref);
        return bytes(&table::table(resource, wanted, &list_metadata(resource, form, list), objects));
    }
    bytes(&ShownList { resource, api_version: resource.api_version(), form, list })
}

fn list_metadata(resource: &Resource, form: Form, list: &List) -> Value {
    let mut metadata = serde_json::json!({ "resourceVersion": list.revision.to_string() });
    if let Some(metadata) = metadata.as_object_mut() {
        // Lists of custom resources always have the field, those of built-in ones only when there is more.
        let always = resource.custom && !matches!(form, Form::Table(_));
        let next = list.next.clone().or_else(|| always.then(String::new));
        metadata.extend(next.map(|next| ("continue".to_owned(), Value::from(next))));
        metadata.extend(list.remaining.map(|n| ("remainingItemCount".to_owned(), Value::from(n))));
    }
    metadata
}

struct ShownList<'a> {
    resource: &'a Resource,
    api_version: String,
    form: Form,
    list: &'a List,
}

impl Serialize for ShownList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, api_version) = match self.form {
            Form::Whole | Form::Table(_) => (self.resource.list_kind.as_str(), self.api_version.as_str()),
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        };
        let metadata = list_metadata(self.resource, self.form, self.list);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("apiVersion", api_version)?;
        map.serialize_entry("metadata", &metadata)?;
        map.serialize_entry("items", &Items(self))?;
        map.end()
    }
}

struct Items<'a>(&'a ShownList<'a>);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = self.0;
        let typed = match shown.form {
            Form::Metadata => PARTIAL,
            Form::Whole | Form::Table(_) if shown.resource.custom => Typed::Asis,
            Form::Whole | Form::Table(_) => Typed::No,
        };
        let mut seq = serializer.serialize_seq(Some(shown.list.items.len()))?;
        for object in &shown.list.items {
            let (resource, api_version) = (shown.resource, shown.api_version.as_str());
            seq.serialize_element(&Shown { resource, object, api_version, form: shown.form, typed })?;
        }
        seq.end()
    }
}

/// What a watch says.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// An object appeared in the selection.
    Added(Arc<Value>),
    /// An object of the selection changed.
    Modified(Arc<Value>),
    /// An object left the selection.
    Deleted {
        /// How it was when it last belonged to it.
        last: Arc<Value>,
        /// The revision at which it left.
        revision: u64,
    },
    /// Nothing happened up to this revision.
    Bookmark {
        /// The revision.
        revision: u64,
        /// Whether all objects that existed at the beginning have been sent by now.
        initial_events_end: bool,
    },
    /// The watch is over.
    Error(Failure),
}

/// Appends one line of a watch.
pub(crate) fn event(resource: &Resource, api_version: &str, form: Form, event: &Event, out: &mut Vec<u8>) {
    let typed = if form == Form::Metadata { PARTIAL } else { Typed::Asis };
    let write = |out: &mut Vec<u8>, kind: &str, object: &Value| {
        if let Form::Table(wanted) = form {
            return line(out, kind, &row(resource, wanted, object));
        }
        line(out, kind, &Shown { resource, object, api_version, form, typed });
    };
    match event {
        Event::Added(object) => write(out, "ADDED", object),
        Event::Modified(object) => write(out, "MODIFIED", object),
        Event::Deleted { last, revision } => {
            let mut last = last.as_ref().clone();
            crate::meta::set(&mut last, "resourceVersion", revision.to_string());
            write(out, "DELETED", &last);
        }
        Event::Bookmark { revision, initial_events_end } => {
            let mut metadata =
                serde_json::json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
            if let (true, Some(metadata)) = (*initial_events_end, metadata.as_object_mut()) {
                let annotations = serde_json::json!({ "k8s.io/initial-events-end": "true" });
                metadata.insert("annotations".to_owned(), annotations);
            }
            let bookmark =
                serde_json::json!({ "kind": resource.kind, "apiVersion": api_version, "metadata": metadata });
            write(out, "BOOKMARK", &bookmark);
        }
        Event::Error(failure) => line(out, "ERROR", &failure.to_status()),
    }
}

fn line(out: &mut Vec<u8>, kind: &str, object: &impl Serialize) {
    #[derive(serde::Serialize)]
    struct WatchEvent<'a, T> {
        r#type: &'a str,
        object: &'a T,
    }
    // Writing JSON values into memory cannot fail.
    if serde_json::to_writer(&mut *out, &WatchEvent { r#type: kind, object }).is_ok() {
        out.push(b'\n');
    }
}

fn bytes(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
