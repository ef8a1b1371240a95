//! Objects in protobuf, turned into JSON.
//!
//! kubectl writes what it makes itself in protobuf: `kubectl create`, the evictions of a drain. Answers may be JSON all the same,
//! so this is the only direction. An envelope says of what kind the object is; inside, fields have numbers, which
//! [`crate::types`] knows.
//!
//! On this wire nothing tells "zero" from "not said" for fields that Go keeps by value. Texts that are empty, and the numbers
//! and flags of which it is known that their zero says nothing, are left out; all other zeroes were meant.

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::types::{Field, Shape, Types};
use wire::{Entry, entries};

/// The media type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every envelope begins with.
const MAGIC: &[u8] = b"k8s\0";

const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Fields whose zero is the same as their absence.
const SILENT: &[&str] = &[
    "containerPort",
    "generation",
    "globalDefault",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "minReadySeconds",
    "nodePort",
    "observedGeneration",
    "paused",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
    "unschedulable",
];

/// The object in an envelope as JSON; nothing if it is no envelope, or of a kind nobody knows.
pub(crate) fn to_json(types: &Arc<Types>, body: &[u8]) -> Option<Value> {
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for entry in entries(body.strip_prefix(MAGIC)?) {
        match entry? {
            (1, Entry::Bytes(type_meta)) => {
                for entry in entries(type_meta) {
                    match entry? {
                        (1, Entry::Bytes(text)) => api_version = String::from_utf8(text.to_vec()).ok()?,
                        (2, Entry::Bytes(text)) => kind = String::from_utf8(text.to_vec()).ok()?,
                        _ => {}
                    }
                }
            }
            (2, Entry::Bytes(object)) => raw = object,
            _ => {}
        }
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let name = match types.of_kind(group, version, &kind) {
        Some(kind_type) => kind_type.name().to_owned(),
        None if kind == "DeleteOptions" => DELETE_OPTIONS.to_owned(),
        None => return None,
    };
    let Some(Shape::Fields(fields)) = types.named(&name) else { return None };
    let mut object = Map::new();
    Decoder { types }.message(fields, &[], raw, Zeroes::Meant, &mut object)?;
    object.insert("apiVersion".to_owned(), Value::from(api_version));
    object.insert("kind".to_owned(), Value::from(kind));
    Some(Value::Object(object))
}

/// Whether a zero was meant or is only the way of this wire to say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zeroes {
    Meant,
    /// As in every status: what is counted there begins with nothing.
    Silent,
}

struct Decoder<'a> {
    types: &'a Types,
}

impl Decoder<'_> {
    /// Reads the fields of a message into an object. `way` is the way to it from the struct that JSON shows.
    fn message(
        &self,
        fields: &BTreeMap<String, Field>,
        way: &[u32],
        bytes: &[u8],
        zeroes: Zeroes,
        into: &mut Map<String, Value>,
    ) -> Option<()> {
        for entry in entries(bytes) {
            let (number, entry) = entry?;
            let here: Vec<u32> = way.iter().copied().chain([number]).collect();
            if let Some((name, field)) = fields.iter().find(|(_, field)| field.wire == here) {
                let inner = if name == "status" { Zeroes::Silent } else { zeroes };
                let own = if SILENT.contains(&name.as_str()) { Zeroes::Silent } else { zeroes };
                let value = self.value(&field.shape, entry, inner)?;
                keep(&field.shape, name, value, own, into);
            } else if let (Entry::Bytes(inner), true) =
                (entry, fields.values().any(|field| field.wire.starts_with(&here)))
            {
                self.message(fields, &here, inner, zeroes, into)?;
            }
        }
        Some(())
    }

    fn value(&self, shape: &Shape, entry: Entry<'_>, zeroes: Zeroes) -> Option<Value> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok().map(Value::from);
        match (shape, entry) {
            (Shape::List(of), entry) => self.value(of, entry, zeroes),
            (Shape::Map(of), Entry::Bytes(bytes)) => self.map_entry(of, bytes, zeroes),
            (Shape::Named(name), Entry::Bytes(bytes)) => self.named(name, bytes, zeroes),
            (Shape::Scalar { of, format }, Entry::Bytes(bytes)) if of == "string" => match format.as_deref() {
                Some("byte") => Some(Value::from(STANDARD.encode(bytes))),
                _ => text(bytes),
            },
            (Shape::Scalar { of, .. }, Entry::Number(number)) if of == "boolean" => Some(Value::from(number != 0)),
            (Shape::Scalar { .. }, Entry::Number(number)) => Some(Value::from(number.cast_signed())),
            (Shape::Scalar { .. }, Entry::Double(number)) => Some(Value::from(number)),
            (Shape::Anything | Shape::Object | Shape::IntOrString | Shape::Fields(_), _) => Some(Value::Null),
            _ => None,
        }
    }

    fn map_entry(&self, of: &Shape, bytes: &[u8], zeroes: Zeroes) -> Option<Value> {
        let (mut key, mut value) = (String::new(), None);
        for entry in entries(bytes) {
            match entry? {
                (1, Entry::Bytes(text)) => key = String::from_utf8(text.to_vec()).ok()?,
                (2, entry) => value = Some(self.value(of, entry, zeroes)?),
                _ => {}
            }
        }
        let value = value.unwrap_or_else(|| Value::from(""));
        Some(Value::Object(Map::from_iter([(key, value)])))
    }

    fn named(&self, name: &str, bytes: &[u8], zeroes: Zeroes) -> Option<Value> {
        let field =
            |wanted: u32| entries(bytes).flatten().find(|(number, _)| *number == wanted).map(|(_, entry)| entry);
        let text = |number| match field(number) {
            Some(Entry::Bytes(text)) => String::from_utf8(text.to_vec()).unwrap_or_default(),
            _ => String::new(),
        };
        let number = |wanted| match field(wanted) {
            Some(Entry::Number(number)) => number.cast_signed(),
            _ => 0,
        };
        match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => Some(Value::from(text(1))),
            "IntOrString" if number(1) == 1 => Some(Value::from(text(3))),
            "IntOrString" => Some(Value::from(number(2))),
            "Time" | "MicroTime" if bytes.is_empty() => Some(Value::Null),
            "Time" => Some(Value::from(time(number(1), number(2), "%Y-%m-%dT%H:%M:%SZ"))),
            "MicroTime" => Some(Value::from(time(number(1), number(2), "%Y-%m-%dT%H:%M:%S%.6fZ"))),
            "FieldsV1" => Some(Value::Null),
            "JSON" => match field(1) {
                Some(Entry::Bytes(raw)) => serde_json::from_slice(raw).ok(),
                _ => Some(Value::Null),
            },
            _ => match self.types.named(name)? {
                Shape::Fields(fields) => {
                    let mut object = Map::new();
                    self.message(fields, &[], bytes, zeroes, &mut object)?;
                    Some(Value::Object(object))
                }
                _ => Some(Value::Object(Map::new())),
            },
        }
    }
}

/// Puts a value where it belongs: lists and maps come one element at a time.
fn keep(shape: &Shape, name: &str, value: Value, zeroes: Zeroes, into: &mut Map<String, Value>) {
    let says_nothing = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(false) => zeroes == Zeroes::Silent,
        Value::Number(number) => zeroes == Zeroes::Silent && number.as_i64() == Some(0),
        _ => false,
    };
    match (shape, value) {
        (Shape::List(_), value) => {
            let list = into.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
        }
        (Shape::Map(_), Value::Object(entry)) => {
            let map = into.entry(name).or_insert_with(|| Value::Object(Map::new()));
            map.as_object_mut().into_iter().for_each(|map| map.extend(entry.clone()));
        }
        (_, value) if !says_nothing => drop(into.insert(name.to_owned(), value)),
        _ => {}
    }
}

fn time(seconds: i64, nanos: i64, form: &str) -> String {
    let time = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or_default()).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime(form).to_string()
}

#[cfg(test)]
mod tests;
