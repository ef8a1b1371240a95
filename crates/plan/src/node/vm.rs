//! Whether two provider ids mean the same VM.
//!
//! The id on a Node comes from its kubelet or cloud controller, the id on a Machine from its driver, and they differ in how they spell
//! a VM's place (zone or region, with or without the project, upper or lower case). What they agree on is the last part, the VM's own
//! name, so only that is compared. Everybody who has to know whose VM a Node runs on asks here.

use api::ProviderId;

/// Whether both name the same VM. An id that says nothing is nobody's proof.
#[must_use]
pub fn is_same_vm(one: &ProviderId, other: &ProviderId) -> bool {
    !one.is_empty() && vm_name(one) == vm_name(other)
}

/// Returns the part of an id by which VMs are compared: its last path segment in lower case, or the whole id if it ends with a slash.
#[must_use]
pub fn vm_name(id: &ProviderId) -> String {
    let id = id.as_str();
    id.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(id).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::aws("aws:///eu-west-1a/i-0abc", "aws:///eu-west-1/i-0abc", true)]
    #[case::gcp("gce://project/zone-b/m-1", "gce:///project/zone-b/m-1", true)]
    #[case::openstack("openstack:///5e2f", "openstack:///region/5e2f", true)]
    #[case::azure(
        "azure:///subscriptions/s/resourceGroups/g/providers/p/virtualMachines/M-1",
        "azure:///westeurope/m-1",
        true
    )]
    #[case::another("aws:///eu-west-1a/i-0abc", "aws:///eu-west-1/i-0def", false)]
    #[case::silent("", "aws:///eu-west-1/i-0abc", false)]
    #[case::both_silent("", "", false)]
    #[case::without_a_name("aws:///", "gce:///", false)]
    fn a_vm_is_known_by_the_last_part_of_its_id(#[case] node: &str, #[case] vm: &str, #[case] same: bool) {
        assert_eq!(is_same_vm(&node.into(), &vm.into()), same);
        assert_eq!(is_same_vm(&vm.into(), &node.into()), same);
    }
}
