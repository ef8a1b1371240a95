//! Writing on Nodes, and removing them.
//!
//! Metadata and spec are a merge patch, the status a strategic one, in which conditions are merged by type and the kubelet's stay
//! out of it. Each is guarded by what the decision was based on, the second by what the first one made of it.

use api::Object;
use api::view::NodeView;
use either::Either;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use plan::machine::Step;
use plan::node::NodeWrite;
use runtime::Key;
use runtime::client::{RetryClass, Trouble};

use super::act::{Stumble, guard, stumble};
use crate::cluster::Target;
use crate::turns::is_outdated;

/// Writes what is to be written, in one request for the object and one for its status.
pub(super) async fn write(target: &Target, write: &NodeWrite, step: &Step) -> Result<(), Stumble> {
    let api: Api<NodeView> = Api::all(target.client.clone());
    let (name, uid, parameters) = (&write.name, write.uid.as_str(), PatchParams::default());
    let _turn = target.turns.take(name).await;
    if is_outdated(&target.nodes, name, uid, &write.resource_version) {
        return Err(Stumble::Outdated { step: step.to_string() });
    }
    let mut version = write.resource_version.clone();
    if let Some(mut body) = write.object_patch() {
        guard(&mut body, uid, &version);
        let answer = api.patch(name, &parameters, &Patch::Merge(&body)).await.map_err(|error| stumble(step, &error))?;
        answer.resource_version().clone_into(&mut version);
        target.nodes.wrote(answer);
    }
    if let Some(mut body) = write.status_patch() {
        guard(&mut body, uid, &version);
        let answer = api
            .patch_status(name, &parameters, &Patch::Strategic(&body))
            .await
            .map_err(|error| stumble(step, &error))?;
        target.nodes.wrote(answer);
    }
    Ok(())
}

/// Deletes this very Node.
pub(super) async fn delete(target: &Target, name: &str, uid: &str, step: &Step) -> Result<(), Stumble> {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    let api: Api<NodeView> = Api::all(target.client.clone());
    match api.delete(name, &parameters).await {
        Ok(Either::Left(node)) => target.nodes.wrote(node),
        Ok(Either::Right(_)) => target.nodes.deleted(&Key::cluster(name), uid),
        Err(error) => match Trouble::of(&error).class {
            // Gone, or replaced by another node of that name: either way this one is no more.
            RetryClass::NotFound | RetryClass::Conflict => target.nodes.deleted(&Key::cluster(name), uid),
            _ => return Err(stumble(step, &error)),
        },
    }
    Ok(())
}
