//! Keeping the autoscaler away from a node while its deployment rolls.
//!
//! The annotation that does it may be the user's. Ours is accompanied by a second one that says so; where the user's stands alone,
//! nothing is written and nothing is removed later.

use api::Object;
use api::names::annotations::{SCALE_DOWN_DISABLED, SCALE_DOWN_DISABLED_BY_US, SCALE_DOWN_DISABLED_VALUE};
use api::view::NodeView;

use super::draft::Draft;

/// Whether the autoscaler is still to be kept away from the node.
#[must_use]
pub fn is_left_to_autoscaler(node: &NodeView) -> bool {
    is_left(node.annotation(SCALE_DOWN_DISABLED), node.annotation(SCALE_DOWN_DISABLED_BY_US))
}

/// The autoscaler leaves the node alone, unless it does so anyway at the user's request.
pub fn keep_from_autoscaler(draft: &mut Draft<'_>) {
    if is_left(draft.annotation(SCALE_DOWN_DISABLED), draft.annotation(SCALE_DOWN_DISABLED_BY_US)) {
        draft.annotate(SCALE_DOWN_DISABLED, Some(SCALE_DOWN_DISABLED_VALUE));
        draft.annotate(SCALE_DOWN_DISABLED_BY_US, Some(SCALE_DOWN_DISABLED_VALUE));
    }
}

fn is_left(disabled: Option<&str>, by_us: Option<&str>) -> bool {
    disabled.is_none_or(|value| by_us.is_some() && value != SCALE_DOWN_DISABLED_VALUE)
}
