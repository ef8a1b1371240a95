//! Writes to Nodes, as plans describe them.
//!
//! Metadata and spec are a merge patch, the status a strategic one, in which conditions are merged by type and the kubelet's stay
//! out of it. Each is guarded by what the decision was based on, the second by what the first one made of it.

use std::sync::Arc;

use api::view::NodeView;
use planner::node::NodeWrite;

use super::{Guard, Held, Part, WriteError};

impl<'a> Guard<'a> {
    /// What a write to a Node was decided on.
    pub(crate) fn of_node(write: &'a NodeWrite) -> Self {
        Self { name: &write.name, uid: write.uid.as_str(), version: write.resource_version.as_deref() }
    }
}

impl Held<'_, NodeView> {
    /// Writes what is to be written, in one request for the object and one for its status. Answers with the Node as it is now.
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
