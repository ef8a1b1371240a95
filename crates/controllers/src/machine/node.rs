//! Writing on Nodes, removing them, and asking for one that the cache does not show.
//!
//! Metadata and spec are a merge patch, the status a strategic one, in which conditions are merged by type and the kubelet's stay
//! out of it. Each is guarded by what the decision was based on, the second by what the first one made of it.

use api::Object;
use api::names::finalizers;
use api::view::NodeView;
use either::Either;
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use plan::drain::Outlook;
use plan::machine::{Barrier, NodeLookup, Step, not_kept};
use plan::node::NodeWrite;
use runtime::Key;
use runtime::cache::Lookup;
use runtime::client::{ApiError, RetryClass};

use super::act::{WriteError, write_error};
use crate::cluster::Target;
use crate::requests::guard;
use crate::write_locks::is_outdated;

/// Writes what is to be written, in one request for the object and one for its status. Answers with the barriers that were taken and
/// not kept.
pub(super) async fn write(target: &Target, write: &NodeWrite, step: &Step) -> Result<Vec<Barrier>, WriteError> {
    let api: Api<NodeView> = Api::all(target.client.clone());
    let (name, uid, parameters) = (&write.name, write.uid.as_str(), PatchParams::default());
    let _lock = target.write_locks.take(name).await;
    if is_outdated(&target.nodes, &Key::cluster(name.as_str()), uid, &write.resource_version) {
        return Err(WriteError::Outdated { step: step.to_string() });
    }
    let mut version = write.resource_version.clone();
    let mut last = None;
    if let Some(mut body) = write.object_patch() {
        guard(&mut body, uid, Some(&version));
        let answer =
            api.patch(name, &parameters, &Patch::Merge(&body)).await.map_err(|error| write_error(step, &error))?;
        answer.resource_version().clone_into(&mut version);
        target.nodes.wrote(answer.clone());
        if releases_in_vain(write, &answer) {
            return Err(WriteError::NothingChanged { step: step.to_string() });
        }
        last = Some(answer);
    }
    if let Some(mut body) = write.status_patch() {
        guard(&mut body, uid, Some(&version));
        let answer = api
            .patch_status(name, &parameters, &Patch::Strategic(&body))
            .await
            .map_err(|error| write_error(step, &error))?;
        target.nodes.wrote(answer.clone());
        last = Some(answer);
    }
    Ok(last.map(|answer| not_kept(write, &answer)).unwrap_or_default())
}

/// Whether our finalizer was to go and did not: the next attempt would be the same, and at once.
fn releases_in_vain(write: &NodeWrite, answer: &NodeView) -> bool {
    let ours = |list: &[String]| list.iter().any(|finalizer| finalizer == finalizers::NODE);
    write.finalizers.as_deref().is_some_and(|wanted| !ours(wanted))
        && ours(answer.metadata.finalizers.as_deref().unwrap_or_default())
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
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let api: Api<NodeView> = Api::all(target.client.clone());
    let left = match api.delete(name, &parameters).await {
        Ok(Either::Left(node)) => {
            target.nodes.wrote(node);
            return Ok(Left::Something);
        }
        Ok(Either::Right(_)) => Left::Nothing,
        Err(error) => match ApiError::of(&error).class {
            RetryClass::NotFound => Left::Nothing,
            RetryClass::Conflict => {
                match catch_up(target, name, uid).await.map_err(|error| write_error(step, &error))? {
                    Bearer::Itself => return Err(write_error(step, &error)),
                    Bearer::Another => return Ok(Left::Something),
                    Bearer::Nobody => Left::Nothing,
                }
            }
            _ => return Err(write_error(step, &error)),
        },
    };
    target.nodes.deleted(&Key::cluster(name), uid);
    Ok(left)
}

/// Who has the name of a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bearer {
    /// The very Node that was meant.
    Itself,
    /// Another one.
    Another,
    /// None.
    Nobody,
}

/// Finds out what a conflict means: that this Node is no more, or only that somebody wrote to it at the same time. Taking the one for
/// the other would strike it from the cache for good, and leave it behind when its machine goes.
pub(super) async fn catch_up(target: &Target, name: &str, uid: &str) -> Result<Bearer, kube::Error> {
    let api: Api<NodeView> = Api::all(target.client.clone());
    let found = api.get_opt(name).await?;
    let bearer = match &found {
        Some(node) if node.uid().as_str() == uid => Bearer::Itself,
        Some(_) => Bearer::Another,
        None => Bearer::Nobody,
    };
    if bearer != Bearer::Itself {
        target.nodes.deleted(&Key::cluster(name), uid);
    }
    if let Some(node) = found {
        target.nodes.wrote(node);
    }
    Ok(bearer)
}

/// Asks the API server itself for a Node. One that it finds is in the cache before the watch shows it.
pub(super) async fn look_for(target: &Target, name: &str, before: &NodeLookup, now: Timestamp) -> NodeLookup {
    let api: Api<NodeView> = Api::all(target.client.clone());
    match api.get_opt(name).await {
        Ok(None) => NodeLookup::Absent,
        Ok(Some(node)) => {
            target.nodes.wrote(node);
            match target.nodes.look_up(&Key::cluster(name)) {
                Lookup::Present(_) | Lookup::Undecodable(_) => NodeLookup::Unasked,
                // The watch has been further: it was deleted while we asked.
                Lookup::Absent => before.in_vain("it was there a moment ago".to_owned(), Outlook::Passing, now),
            }
        }
        Err(error) => {
            let api_error = ApiError::of(&error);
            let outlook = match api_error.class {
                RetryClass::Forbidden | RetryClass::Invalid => Outlook::Lasting,
                _ => Outlook::Passing,
            };
            before.in_vain(api_error.to_string(), outlook, now)
        }
    }
}
