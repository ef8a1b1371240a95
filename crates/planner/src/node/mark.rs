//! The marks of a managed Node: a label that names its Machine, and a finalizer that makes its deletion visible.

use api::Object;
use api::names::{finalizers, labels};
use api::view::NodeView;

use super::draft::Draft;
use super::write::NodeWrite;

/// Adds the label and the finalizer. A Node that is being deleted is not changed.
pub fn mark(draft: &mut Draft<'_>, machine: &str) {
    if draft.node().is_deleting() {
        return;
    }
    draft.label(labels::MACHINE_NAME, Some(machine));
    draft.add_finalizer(finalizers::NODE);
}

/// Returns the write that removes the finalizer, or `None` if the Node does not have it. The label stays for readers of
/// the Node's last state.
#[must_use]
pub fn release(node: &NodeView) -> Option<NodeWrite> {
    let mut draft = Draft::of(node);
    draft.remove_finalizer(finalizers::NODE);
    draft.finish()
}
