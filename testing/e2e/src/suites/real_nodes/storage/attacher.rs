//! The side-car `external-attacher`: attaches volumes of new VolumeAttachments, and detaches those of deleted ones.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::cluster::text;
use super::events::{Event, Events};
use super::plugin::DRIVER;
use crate::web::Proxy;

const ALL: &str = "/apis/storage.k8s.io/v1/volumeattachments";
/// The finalizer of the side-car.
const FINALIZER: &str = "external-attacher/hostpath-csi-k8s-io";

/// Handles all VolumeAttachments once.
pub(super) async fn work(api: &Proxy, events: &Events) -> anyhow::Result<()> {
    let list: Value = serde_json::from_str(&api.get(ALL).await?.body)?;
    let ours = list.get("items").and_then(Value::as_array).into_iter().flatten();
    for attachment in ours.filter(|one| text(one, "/spec/attacher") == DRIVER) {
        let path = format!("{ALL}/{}", text(attachment, "/metadata/name"));
        let (volume, node) =
            (text(attachment, "/spec/source/persistentVolumeName"), text(attachment, "/spec/nodeName"));
        let (volume, node) = (volume.to_owned(), node.to_owned());
        match asked(attachment) {
            Some(Action::Attach) => {
                change(api, &path, &json!({ "metadata": { "finalizers": [FINALIZER] } })).await?;
                // Recorded before the write, because the kubelet uses the volume as soon as it is attached.
                events.note(Event::Attached { volume, node });
                change(api, &format!("{path}/status"), &json!({ "status": { "attached": true } })).await?;
            }
            Some(Action::Detach) => {
                events.note(Event::Detached { volume, node });
                change(api, &path, &json!({ "metadata": { "finalizers": null } })).await?;
            }
            None => {}
        }
    }
    Ok(())
}

/// Action for a VolumeAttachment.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Attach,
    Detach,
}

fn asked(attachment: &Value) -> Option<Action> {
    let finalizers = attachment.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    let marked = finalizers.filter_map(Value::as_str).any(|one| one == FINALIZER);
    let attached = attachment.pointer("/status/attached").and_then(Value::as_bool).unwrap_or_default();
    match attachment.pointer("/metadata/deletionTimestamp") {
        Some(_) => marked.then_some(Action::Detach),
        None => (!attached).then_some(Action::Attach),
    }
}

async fn change(api: &Proxy, path: &str, object: &Value) -> anyhow::Result<()> {
    let answer = api.send("PATCH", path, object).await?;
    // The VolumeAttachment may have been deleted.
    ensure!(answer.is_well() || answer.status == 404, "failed to patch {path}: {}", answer.message());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::new(json!({}), false, Some(Action::Attach))]
    #[case::attached(json!({ "finalizers": [FINALIZER] }), true, None)]
    #[case::to_be_detached(json!({ "finalizers": [FINALIZER], "deletionTimestamp": "t" }), true, Some(Action::Detach))]
    #[case::detached(json!({ "finalizers": ["other"], "deletionTimestamp": "t" }), true, None)]
    fn the_action_for_an_attachment_is_selected(
        #[case] metadata: Value,
        #[case] attached: bool,
        #[case] expected: Option<Action>,
    ) {
        assert_eq!(asked(&json!({ "metadata": metadata, "status": { "attached": attached } })), expected);
    }
}
