//! Events of volumes in order, and their invariants.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// An event of a volume on a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Attached { volume: String, node: String },
    Published { volume: String, node: String },
    Unpublished { volume: String, node: String },
    Detached { volume: String, node: String },
}

/// All events so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Events(Arc<Mutex<Vec<Event>>>);

/// A violated invariant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Events {
    pub(super) fn note(&self, event: Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(super) fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns the Nodes on which a volume was used, in order. Fails if it was on two Nodes at the same time, or was
/// detached while a pod used it.
pub(super) fn nodes_of(events: &[Event]) -> Result<Vec<String>, Violation> {
    let mut nodes: Vec<String> = Vec::new();
    let (mut attached, mut published): (Option<&str>, Option<&str>) = (None, None);
    for event in events {
        match event {
            Event::Attached { node, .. } => {
                if let Some(other) = attached.filter(|other| other != node) {
                    return Err(Violation(format!("attached to {node} and to {other} at the same time")));
                }
                attached = Some(node);
            }
            Event::Published { node, .. } => {
                if attached != Some(node) {
                    return Err(Violation(format!("used on {node} without being attached")));
                }
                published = Some(node);
                if nodes.last() != Some(node) {
                    nodes.push(node.clone());
                }
            }
            Event::Unpublished { node, .. } => published = published.filter(|other| other != node),
            Event::Detached { node, .. } => {
                if published == Some(node) {
                    return Err(Violation(format!("detached from {node} while a pod used it")));
                }
                attached = attached.filter(|other| other != node);
            }
        }
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn event(kind: char, node: char) -> Event {
        let (volume, node) = ("v".to_owned(), node.to_string());
        match kind {
            'a' => Event::Attached { volume, node },
            'p' => Event::Published { volume, node },
            'u' => Event::Unpublished { volume, node },
            _ => Event::Detached { volume, node },
        }
    }

    /// Shows HST-30.
    #[rstest]
    #[case::it_moves("a1 p1 u1 d1 a2 p2", Ok(vec!["1", "2"]))]
    #[case::used_again_on_the_same_node("a1 p1 u1 p1", Ok(vec!["1"]))]
    #[case::detached_under_a_pod("a1 p1 d1", Err("detached from 1 while a pod used it"))]
    #[case::on_two_nodes("a1 p1 u1 a2", Err("attached to 2 and to 1 at the same time"))]
    #[case::used_before_it_is_attached("a1 d1 p1", Err("used on 1 without being attached"))]
    fn a_volume_is_on_one_node_and_is_not_detached_while_in_use(
        #[case] history: &str,
        #[case] expected: Result<Vec<&str>, &str>,
    ) {
        let letters = |word: &str| (word.chars().next().unwrap(), word.chars().nth(1).unwrap());
        let events: Vec<Event> = history.split(' ').map(letters).map(|(kind, node)| event(kind, node)).collect();
        let expected = expected.map(|nodes| nodes.into_iter().map(str::to_owned).collect());
        assert_eq!(nodes_of(&events), expected.map_err(|why| Violation(why.to_owned())));
    }
}
