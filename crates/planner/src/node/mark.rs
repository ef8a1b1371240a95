//! The marks that make a node ours: a label that names its machine, and a finalizer that lets us notice its deletion.

use api::Object;
use api::names::{finalizers, labels};
use api::view::NodeView;

use super::draft::Draft;
use super::write::NodeWrite;

/// The label and the finalizer that make the node ours. A node that is going is left as it is.
pub fn mark(draft: &mut Draft<'_>, machine: &str) {
    if draft.node().is_deleting() {
        return;
    }
    draft.label(labels::MACHINE_NAME, Some(machine));
    draft.hold(finalizers::NODE);
}

/// The write that takes our finalizer from a node, if it is there; its label stays, for whoever reads the node's last state.
#[must_use]
pub fn let_go(node: &NodeView) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    draft.release(finalizers::NODE);
    draft.finish()
}
