//! Writing on Nodes, removing them, and asking for one that the cache does not show.

use api::Text;
use api::names::finalizers;
use api::view::NodeView;
use jiff::Timestamp;
use planner::drain::Outlook;
use planner::machine::{Barrier, NodeLookup, Step, not_kept};
use planner::node::NodeWrite;
use runtime::Key;
use runtime::cache::Lookup;
use runtime::client::RetryClass;

use crate::machine_controller::Target;
use crate::write::{Deletion, Found, Guard, Retry, WriteError};

/// Writes what is to be written. Answers with the barriers that were taken and not kept. A Node that is gone has no finalizer to remove.
pub(super) async fn write(target: &Target, write: &NodeWrite, step: &Step) -> Result<Vec<Barrier>, WriteError> {
    let mut node = target.writer.hold(Guard::of_node(write), step).await?;
    let answer = match node.write(write).await {
        Err(error) if error.retry() == Retry::Gone && releases(write) => {
            node.is_gone();
            return Ok(Vec::new());
        }
        answer => answer?,
    };
    let Some(answer) = answer else { return Ok(Vec::new()) };
    if releases_in_vain(write, &answer) {
        return Err(WriteError::NothingChanged { step: step.to_string() });
    }
    Ok(not_kept(write, &answer))
}

/// Whether our finalizer was to go and did not: the next attempt would be the same, and at once.
fn releases_in_vain(write: &NodeWrite, answer: &NodeView) -> bool {
    releases(write) && is_held(&answer.metadata.finalizers)
}

/// Returns whether the write removes our finalizer.
fn releases(write: &NodeWrite) -> bool {
    write.finalizers.as_deref().is_some_and(|wanted| !is_held(wanted))
}

fn is_held(list: &[Text]) -> bool {
    list.iter().any(|finalizer| *finalizer == *finalizers::NODE)
}

/// What a deletion leaves of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// No Node has it.
    Nothing,
    /// The Node, which others hold, or another one of that name.
    Something,
}

/// Deletes this very Node.
pub(super) async fn delete(target: &Target, name: &str, uid: &str, step: &Step) -> Result<Left, WriteError> {
    let node = target.writer.hold(Guard { name, uid, version: None }, step).await?;
    match node.delete().await {
        Err(error) if error.retry() == Retry::Stale => match node.catch_up().await? {
            Found::Itself => Err(error),
            Found::Another => Ok(Left::Something),
            Found::Nothing => Ok(Left::Nothing),
        },
        Err(error) => Err(error),
        Ok(Deletion::Done | Deletion::AlreadyGone) => Ok(Left::Nothing),
        Ok(Deletion::Terminating) => Ok(Left::Something),
    }
}

/// Asks the API server itself for a Node. One that it finds is in the cache before the watch shows it.
pub(super) async fn look_for(target: &Target, name: &str, before: &NodeLookup, now: Timestamp) -> NodeLookup {
    let found = match target.writer.read(name).await {
        Ok(found) => found,
        Err(api_error) => {
            let outlook = match api_error.class {
                RetryClass::Forbidden | RetryClass::Invalid => Outlook::Lasting,
                _ => Outlook::Passing,
            };
            return before.in_vain(api_error.to_string(), outlook, now);
        }
    };
    match (found, target.nodes.look_up(&Key::cluster(name))) {
        (None, _) => NodeLookup::Absent,
        (Some(_), Lookup::Present(_) | Lookup::Undecodable(_)) => NodeLookup::Unasked,
        // The watch has been further: it was deleted while we asked.
        (Some(_), Lookup::Absent) => before.in_vain("it was there a moment ago".to_owned(), Outlook::Passing, now),
    }
}
