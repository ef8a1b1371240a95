//! Writes and deletes Nodes, and queries a Node that the cache does not show.

use api::Text;
use api::names::finalizers;
use api::view::NodeView;
use jiff::Timestamp;
use planner::drain::Persistence;
use planner::machine::{Barrier, NodeLookup, Step, not_kept};
use planner::node::NodeWrite;
use runtime::Key;
use runtime::cache::Lookup;
use runtime::client::ErrorClass;

use crate::machine_controller::Target;
use crate::write::{Deletion, Found, Guard, WriteError};

/// Writes the Node. Returns the barriers that the API server accepted but did not keep. If the Node no longer exists,
/// removing its finalizer succeeds.
pub(super) async fn write(target: &Target, write: &NodeWrite, step: &Step) -> Result<Vec<Barrier>, WriteError> {
    let mut node = target.writer.hold(Guard::of_node(write), step).await?;
    let answer = match node.write(write).await {
        Err(error) if error.is_gone() && releases(write) => {
            node.mark_deleted();
            return Ok(Vec::new());
        }
        answer => answer?,
    };
    let Some(answer) = answer else { return Ok(Vec::new()) };
    if kept_finalizer(write, &answer) {
        return Err(WriteError::NothingChanged { step: step.to_string() });
    }
    Ok(not_kept(write, &answer))
}

/// Returns whether the finalizer was not removed although the write succeeded, for example because of a webhook. This
/// is an error, so that the write is retried with backoff.
fn kept_finalizer(write: &NodeWrite, answer: &NodeView) -> bool {
    releases(write) && is_held(&answer.metadata.finalizers)
}

/// Returns whether the write removes the finalizer of Millwright.
fn releases(write: &NodeWrite) -> bool {
    write.finalizers.as_deref().is_some_and(|wanted| !is_held(wanted))
}

fn is_held(list: &[Text]) -> bool {
    list.iter().any(|finalizer| *finalizer == *finalizers::NODE)
}

/// What exists under the name after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remaining {
    /// No Node.
    Nothing,
    /// The Node, because of finalizers of other controllers, or another Node of that name.
    Something,
}

/// Deletes this very Node.
pub(super) async fn delete(target: &Target, name: &str, uid: &str, step: &Step) -> Result<Remaining, WriteError> {
    let node = target.writer.hold(Guard { name, uid, version: None }, step).await?;
    match node.delete().await {
        Err(error) if error.is_stale() => match node.refresh().await? {
            Found::Itself => Err(error),
            Found::Another => Ok(Remaining::Something),
            Found::Nothing => Ok(Remaining::Nothing),
        },
        Err(error) => Err(error),
        Ok(Deletion::Done | Deletion::AlreadyGone) => Ok(Remaining::Nothing),
        Ok(Deletion::Terminating) => Ok(Remaining::Something),
    }
}

/// Queries the API server for a Node. If it exists, it is added to the cache.
pub(super) async fn look_up(target: &Target, name: &str, before: &NodeLookup, now: Timestamp) -> NodeLookup {
    let found = match target.writer.read(name).await {
        Ok(found) => found,
        Err(api_error) => {
            let outlook = match api_error.class {
                ErrorClass::Forbidden | ErrorClass::Invalid => Persistence::Permanent,
                _ => Persistence::Transient,
            };
            return before.failed(api_error.to_string(), outlook, now);
        }
    };
    match (found, target.nodes.look_up(&Key::cluster(name))) {
        (None, _) => NodeLookup::Absent,
        (Some(_), Lookup::Present(_) | Lookup::Undecodable(_)) => NodeLookup::NotRequested,
        // The watch is ahead of the response: the Node was deleted meanwhile.
        (Some(_), Lookup::Absent) => {
            before.failed("the Node was deleted during the query".to_owned(), Persistence::Transient, now)
        }
    }
}
