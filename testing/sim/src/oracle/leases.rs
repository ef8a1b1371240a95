//! Checks that only the leader of a component writes.

use std::collections::BTreeMap;

use super::{Write, Writer, WritingComponent, text};

/// The holder of each lease. A deleted lease counts as held. Leases are not deleted here: the holder learns of it only
/// at the next renewal, and until then the protocol of Leases does not prevent two writers.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<String, String>);

impl Leases {
    /// Records a write and checks its author. Without any holder there is no election.
    pub(super) fn note(&mut self, write: &Write<'_>) -> Option<String> {
        if write.kind == "leases.coordination.k8s.io" {
            let holder = write.after.map_or("", |lease| text(lease, "/spec/holderIdentity"));
            if !holder.is_empty() {
                self.0.insert(write.name.to_owned(), holder.to_owned());
            }
            return None;
        }
        let Writer { process, component } = write.writer?;
        let lease = match component {
            WritingComponent::Machines => api::names::MACHINE_CONTROLLER_LEASE,
            WritingComponent::Manager => api::names::MANAGER_LEASE,
        };
        let holder = self.0.get(lease)?;
        let holds = holder.split_once('_').is_some_and(|(host, _)| host == format!("process-{process}"));
        (!holds).then(|| format!("process {process} writes {} {}, but {holder} holds {lease}", write.kind, write.name))
    }
}
