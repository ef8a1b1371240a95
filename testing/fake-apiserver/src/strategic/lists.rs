//! Merging lists, and in which order their elements stand afterwards.
//!
//! Elements of the patch stand as the patch has them, all others as they stood before; where the two are woven together, an
//! element goes before another if it did so before. kubectl counts on it: applying a file must not shuffle what a user sees.

use serde_json::Value;

use super::{PATCH, StrategicError, without_directives};
use crate::types::Place;

/// Merges a patch into a list. Objects are told apart by `key`, anything else by itself.
pub(super) fn merge(
    original: &[Value],
    patch: Vec<Value>,
    key: Option<&str>,
    place: Place<'_>,
) -> Result<Vec<Value>, StrategicError> {
    let objects = original.iter().chain(&patch).filter(|element| element.is_object()).count();
    if objects == 0 {
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        for value in original.iter().chain(&patch) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return Ok(arrange(merged, &patch, original, None));
    }
    if objects != original.len() + patch.len() {
        return Err(StrategicError::MixedElements);
    }
    let key = key.ok_or(StrategicError::Indistinguishable)?;
    let Parted { replaces, gone, plain } = part(patch, key)?;
    if replaces {
        return Ok(plain.into_iter().map(without_directives).collect());
    }
    let mut merged: Vec<Value> = original.iter().filter(|e| !gone.contains(identity(e, Some(key)))).cloned().collect();
    for element in &plain {
        let who = element.get(key).ok_or_else(|| StrategicError::NoMergeKey(key.to_owned()))?;
        match (merged.iter_mut().find(|e| identity(e, Some(key)) == who), element) {
            (Some(Value::Object(found)), Value::Object(change)) => {
                *found = super::merge(std::mem::take(found), change.clone(), place)?;
            }
            _ => merged.push(without_directives(element.clone())),
        }
    }
    Ok(arrange(merged, &plain, original, Some(key)))
}

/// A patch of a list of objects, by what its elements mean.
struct Parted {
    /// Whether the list is replaced.
    replaces: bool,
    /// The keys of the elements that go.
    gone: Vec<Value>,
    /// The elements that are merged.
    plain: Vec<Value>,
}

fn part(patch: Vec<Value>, key: &str) -> Result<Parted, StrategicError> {
    let mut parted = Parted { replaces: false, gone: Vec::new(), plain: Vec::new() };
    for element in patch {
        match element.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => parted.plain.push(element),
            Some("delete") => {
                let who = element.get(key).ok_or_else(|| StrategicError::NoMergeKey(key.to_owned()))?;
                parted.gone.push(who.clone());
            }
            Some("replace") => parted.replaces = true,
            Some("merge") => return Err(StrategicError::MergeDirective),
            Some(other) => return Err(StrategicError::UnknownDirective(other.to_owned())),
        }
    }
    Ok(parted)
}

/// Whether the elements of a patch stand in the order that it asks for; those that go are not asked.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), StrategicError> {
    let mut order = order.iter();
    let staying = patch.iter().filter(|element| element.get(PATCH).is_none());
    for element in staying {
        if !order.any(|ordered| identity(ordered, key) == identity(element, key)) {
            return Err(StrategicError::Order);
        }
    }
    Ok(())
}

/// Puts elements into order: those that `wanted` names as they stand there, others as they stood `before`.
pub(super) fn arrange(elements: Vec<Value>, wanted: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let place = |list: &[Value], element: &Value| list.iter().position(|e| identity(e, key) == identity(element, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        elements.into_iter().partition(|element| place(wanted, element).is_some());
    named.sort_by_key(|element| place(wanted, element));
    others.sort_by_key(|element| place(before, element).unwrap_or(usize::MAX));

    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    let mut arranged = Vec::new();
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return arranged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => {
                matches!((place(before, other), place(before, named)), (Some(other), Some(named)) if other < named)
            }
        };
        arranged.extend(if other_first { others.next() } else { named.next() });
    }
}

/// What tells an element apart.
fn identity<'a>(element: &'a Value, key: Option<&str>) -> &'a Value {
    const NOTHING: &Value = &Value::Null;
    match key {
        Some(key) if element.is_object() => element.get(key).unwrap_or(NOTHING),
        _ => element,
    }
}
