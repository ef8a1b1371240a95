//! Strategic merge patches: like merge patches, but lists are merged too.
//!
//! A merge patch replaces lists whole, so whoever adds a condition with one must know all others, and overwrites what somebody
//! else added meanwhile. For the kinds it has types of, the server knows which field tells the elements of a list apart and
//! merges by it. Where a type alone does not say what is meant, the patch says it in directives: `$patch` replaces or deletes,
//! `$deleteFromPrimitiveList` takes values out of a list of texts, `$setElementOrder` says how the elements stand, `$retainKeys`
//! clears what is not named. kubectl writes all of them, so all of them are understood here.
//!
//! Custom kinds have no such types; for them this language is not spoken.

mod lists;

use serde_json::{Map, Value};

use crate::types::Place;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// Why a patch was not applied. The texts are those of the reference, without the objects it repeats in them.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StrategicError {
    /// The body is not a JSON object.
    #[error("{0}")]
    Malformed(String),
    /// The patch sets what it does not retain.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// A `$patch` nobody knows.
    #[error("unknown patch type: {0}")]
    UnknownDirective(String),
    /// A list is told to merge, which it does anyway or not at all.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// An element that cannot be told from others.
    #[error("map does not contain declared merge key: {0}")]
    NoMergeKey(String),
    /// Objects in a list whose elements nothing tells apart.
    #[error("cannot merge lists without merge key")]
    Indistinguishable,
    /// Objects and texts in one list.
    #[error("list element types are not identical")]
    MixedElements,
    /// The elements of the patch stand in another order than the one it asks for.
    #[error("The order in patch list doesn't match $setElementOrder list")]
    Order,
    /// An order that is not a list.
    #[error("expected a []interface {{}}")]
    OrderIsNoList,
    /// An order for a field nobody knows.
    #[error("unable to find api field for the json field {0:?}")]
    UnknownField(String),
}

impl StrategicError {
    /// Whether it is the client's mistake by the reference's lights, which are dim: most of these are reported as its own.
    pub(crate) fn is_bad_request(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::RetainKeys)
    }
}

/// The object that a patch makes of `target`, an object of the kind whose type is given by `place`.
pub(crate) fn apply(target: &Value, body: &[u8], place: Place<'_>) -> Result<Value, StrategicError> {
    let malformed = |error: serde_json::Error| StrategicError::Malformed(error.to_string());
    let patch: Map<String, Value> = serde_json::from_slice(body).map_err(malformed)?;
    let target = target.as_object().cloned().unwrap_or_default();
    merge(target, patch, place).map(Value::Object)
}

fn merge(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    place: Place<'_>,
) -> Result<Map<String, Value>, StrategicError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            other => Err(StrategicError::UnknownDirective(other.unwrap_or_default().to_owned())),
        };
    }
    retain(&mut original, &mut patch)?;
    arrange_lists(&mut original, &mut patch, place)?;
    for (name, change) in patch {
        if let Some(name) = name.strip_prefix(DELETE_FROM) {
            if let (Some(Value::Array(list)), Value::Array(gone)) = (original.get_mut(name), change) {
                list.retain(|value| !gone.contains(value));
            }
            continue;
        }
        let old = original.remove(&name);
        if change.is_null() || old.is_none() && is_moot(&change) {
            continue;
        }
        let (field, inner) = place.field(&name);
        let merges_lists = field.is_some_and(|field| field.strategy.merges_lists());
        let replaces_maps = field.is_some_and(|field| field.strategy.replaces_maps());
        let merged = match (old, change) {
            (Some(Value::Object(old)), Value::Object(change)) if !replaces_maps => {
                Value::Object(merge(old, change, inner)?)
            }
            (Some(Value::Array(old)), Value::Array(change)) if merges_lists => {
                let key = field.and_then(|field| field.merge_key.as_deref());
                Value::Array(lists::merge(&old, change, key, inner.elements())?)
            }
            (_, change) => without_directives(change),
        };
        original.insert(name, merged);
    }
    Ok(original)
}

/// Clears all fields but the named ones. A patch that sets others contradicts itself.
fn retain(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), StrategicError> {
    let Some(named) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(named) = named else { return Err(StrategicError::RetainKeys) };
    let kept = |name: &str| named.iter().any(|kept| kept.as_str() == Some(name));
    let field = |name: &str| name.split_once('/').map_or_else(|| name.to_owned(), |(_, field)| field.to_owned());
    let contradicts = patch.iter().any(|(name, value)| {
        let name = if name.starts_with('$') { field(name) } else { name.clone() };
        !value.is_null() && !kept(&name)
    });
    if contradicts {
        return Err(StrategicError::RetainKeys);
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Carries out the orders that the patch gives for lists, together with what it changes in them.
fn arrange_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    place: Place<'_>,
) -> Result<(), StrategicError> {
    let orders: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in orders {
        let name = directive.trim_start_matches(SET_ORDER);
        let order = patch.remove(&directive);
        if place.lacks(name) {
            return Err(StrategicError::UnknownField(name.to_owned()));
        }
        let (field, inner) = place.field(name);
        let key = field.and_then(|field| field.merge_key.as_deref());
        let Some(Value::Array(order)) = order else { return Err(StrategicError::OrderIsNoList) };
        // A list that goes as a whole has no order.
        if patch.get(name).is_some_and(Value::is_null) {
            continue;
        }
        let list = |fields: &mut Map<String, Value>| match fields.remove(name) {
            Some(Value::Array(list)) => Some(list),
            _ => None,
        };
        let (old, change) = (list(original), list(patch));
        if old.is_none() && change.is_none() {
            continue;
        }
        let (old, change) = (old.unwrap_or_default(), change.unwrap_or_default());
        lists::check_order(&change, &order, key)?;
        let merged = lists::merge(&old, change, key, inner.elements())?;
        original.insert(name.to_owned(), Value::Array(lists::arrange(merged, &order, &old, key)));
    }
    Ok(())
}

/// A value that meets nothing it could be merged with: what it says about merging is void, and so are its nulls.
fn without_directives(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !is_moot(value));
            let plain = fields.filter(|(name, value)| !is_directive(name) && !value.is_null());
            Value::Object(plain.map(|(name, value)| (name, without_directives(value))).collect())
        }
        Value::Array(elements) => {
            Value::Array(elements.into_iter().filter(|e| !is_moot(e)).map(without_directives).collect())
        }
        scalar => scalar,
    }
}

/// Whether a value says what to delete or replace, and means nothing where there is nothing.
fn is_moot(value: &Value) -> bool {
    value.get(PATCH).is_some_and(|directive| directive == "delete" || directive == "replace")
}

fn is_directive(name: &str) -> bool {
    name == PATCH || name == RETAIN_KEYS || name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER)
}

#[cfg(test)]
mod tests;
