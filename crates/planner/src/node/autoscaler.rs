//! Prevents the cluster-autoscaler from removing a Node while its MachineDeployment is rolled out.
//!
//! A user may have set the same annotation. Millwright's is accompanied by a second annotation that identifies it. If
//! the user's annotation is alone, nothing is written, and nothing is removed later.

use api::Object;
use api::names::annotations::{SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_MCM, SCALE_DOWN_DISABLED_VALUE};
use api::view::NodeView;

use super::draft::Draft;

/// Returns whether the cluster-autoscaler may remove the Node.
#[must_use]
pub fn allows_scale_down(node: &NodeView) -> bool {
    allows(node.annotation(SCALE_DOWN_DISABLED), node.annotation(SCALE_DOWN_DISABLED_BY_MCM))
}

/// Disables scale-down of the Node by the cluster-autoscaler, unless the user has disabled it already.
pub fn disable_scale_down(draft: &mut Draft<'_>) {
    if allows(draft.annotation(SCALE_DOWN_DISABLED), draft.annotation(SCALE_DOWN_DISABLED_BY_MCM)) {
        draft.annotate(SCALE_DOWN_DISABLED, Some(SCALE_DOWN_DISABLED_VALUE));
        draft.annotate(SCALE_DOWN_DISABLED_BY_MCM, Some(SCALE_DOWN_DISABLED_VALUE));
    }
}

fn allows(disabled: Option<&str>, by_mcm: Option<&str>) -> bool {
    disabled.is_none_or(|value| by_mcm.is_some() && value != SCALE_DOWN_DISABLED_VALUE)
}
