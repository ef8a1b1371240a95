//! Writes to Nodes.
//!
//! Metadata and spec are written with a merge patch, the status with a strategic merge patch: conditions are merged by type, so those of
//! the kubelet are not sent. The first write has the version of the decision as precondition, the second the version of the first.

use std::sync::Arc;

use api::view::NodeView;
use planner::node::NodeWrite;

use super::{Guard, Held, Part, WriteError};

impl<'a> Guard<'a> {
    /// Returns the preconditions of a write to a Node.
    pub(crate) fn of_node(write: &'a NodeWrite) -> Self {
        Self { name: &write.name, uid: write.uid.as_str(), version: write.resource_version.as_deref() }
    }
}

impl Held<'_, NodeView> {
    /// Writes a Node: one request for the object and one for its status, as needed. Returns the Node after the last write.
    pub(crate) async fn write(&mut self, write: &NodeWrite) -> Result<Option<Arc<NodeView>>, WriteError> {
        let parts = [(Part::Object, write.object_patch()), (Part::StrategicStatus, write.status_patch())];
        let mut last = None;
        for (part, body) in parts {
            if let Some(body) = body {
                last = Some(self.patch(part, body).await?.object);
            }
        }
        Ok(last)
    }
}
