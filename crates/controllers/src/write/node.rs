//! Writes to Nodes.
//!
//! Metadata and spec are written with a merge patch, the status with a strategic merge patch: conditions are merged by type, so those of
//! the kubelet are not sent. The first write has the version of the decision as precondition, the second the version of the first.

use api::view::NodeView;
use planner::node::NodeWrite;

use super::{Guard, Held, Part, WriteError, Written};

impl<'a> Guard<'a> {
    /// Returns the preconditions of a write to a Node.
    pub(crate) fn of_node(write: &'a NodeWrite) -> Self {
        Self { name: &write.name, uid: write.uid.as_str(), version: write.resource_version.as_deref() }
    }
}

impl Held<'_, NodeView> {
    /// Writes a Node: one request for the object and one for its status, as needed. Returns the combined response.
    pub(crate) async fn write(&mut self, write: &NodeWrite) -> Result<Option<Written<NodeView>>, WriteError> {
        let parts = [(Part::Object, write.object_patch()), (Part::StrategicStatus, write.status_patch())];
        let mut last: Option<Written<NodeView>> = None;
        for (part, body) in parts {
            if let Some(body) = body {
                let written = self.patch(part, body).await?;
                last = Some(match last {
                    Some(first) => written.after(first),
                    None => written,
                });
            }
        }
        Ok(last)
    }
}
