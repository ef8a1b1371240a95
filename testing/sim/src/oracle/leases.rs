//! Who may write.

use std::collections::BTreeMap;

use super::{Write, Writer, WritingComponent, text};

/// Who holds which lease. One that is deleted is still held: nobody deletes them here, because whoever held one learns of that only when it
/// renews it, and nothing in the protocol of Leases keeps two from writing until then.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<String, String>);

impl Leases {
    /// Something was written; what is wrong with that. Where nobody has ever held a lease there is no election.
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
            WritingComponent::Fleet => api::names::MANAGER_LEASE,
        };
        let holder = self.0.get(lease)?;
        let holds = holder.split_once('_').is_some_and(|(host, _)| host == format!("process-{process}"));
        (!holds).then(|| format!("process {process} writes {} {}, and {holder} holds {lease}", write.kind, write.name))
    }
}
