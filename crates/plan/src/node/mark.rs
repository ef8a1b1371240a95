//! The marks that make a node ours: a label that names its machine, and a finalizer that lets us notice its deletion.

use api::Object;
use api::names::{finalizers, labels};
use api::view::NodeView;

use crate::machine::NodePatch;

/// The label and the finalizer that make the node ours, in one write.
#[must_use]
pub fn mark(node: &NodeView, machine: &str) -> Option<NodePatch> {
    if node.is_deleting() {
        return None; // the API server refuses new finalizers on a node that is going
    }
    let labelled = node.label(labels::MACHINE_NAME) == Some(machine);
    let present = node.metadata.finalizers.as_deref().unwrap_or_default();
    let held = present.iter().any(|f| f == finalizers::NODE);
    let finalizers = (!held).then(|| {
        let mut list = present.to_vec();
        list.push(finalizers::NODE.to_owned());
        list.sort_unstable();
        list
    });
    (!labelled || !held).then(|| NodePatch {
        name: node.name().to_owned(),
        uid: node.uid(),
        resource_version: node.resource_version().to_owned(),
        machine_label: (!labelled).then(|| machine.to_owned()),
        finalizers,
    })
}
