//! Owner references and label selectors of cached objects.

use api::{LabelSelector, TextMap, Uid};
use runtime::cache::UndecodableObject;

/// Returns whether `owner` is the managing owner of an object that cannot be decoded.
pub(crate) fn is_managed_by(object: &UndecodableObject, owner: &Uid) -> bool {
    object.owners.iter().any(|reference| reference.controller == Some(true) && reference.uid == owner.as_str())
}

/// Returns whether a selector matches the labels of an object without an owner. An empty or invalid selector matches nothing.
pub(crate) fn selects(selector: Option<&LabelSelector>, labels: &TextMap) -> bool {
    !labels.is_empty() && selector.is_some_and(|selector| !selector.is_empty() && selector.matches(labels) == Ok(true))
}
