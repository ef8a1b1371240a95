//! Whether two provider IDs name the same VM.
//!
//! The ID on a Node is set by its kubelet or cloud controller, and the ID on a Machine by its driver. They may differ
//! in the location of the VM (zone or region, with or without the project, upper or lower case), but not in the last
//! part, the name of the VM. So only that part is compared.

use api::ProviderId;

/// Returns whether both IDs name the same VM. An empty ID names none.
#[must_use]
pub fn is_same_vm(one: &ProviderId, other: &ProviderId) -> bool {
    !one.is_empty() && vm_name(one) == vm_name(other)
}

/// Returns the part of an id by which VMs are compared: its last path segment in lower case, or the whole id if it ends
/// with a slash.
#[must_use]
pub fn vm_name(id: &ProviderId) -> String {
    let id = id.as_str();
    id.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(id).to_ascii_lowercase()
}

/// Returns whether the two ids certainly name different VMs: both have the same scheme (`aws://`), and their last path
/// segments differ. An empty id, an id without a scheme, and ids of different schemes prove nothing.
#[must_use]
pub fn is_other_vm(one: &ProviderId, other: &ProviderId) -> bool {
    fn parts(id: &ProviderId) -> Option<(&str, &str)> {
        let (scheme, place) = id.as_str().split_once("://")?;
        let name = place.rsplit('/').next().filter(|name| !name.is_empty())?;
        (!scheme.is_empty()).then_some((scheme, name))
    }
    match (parts(one), parts(other)) {
        (Some((one, name)), Some((other, other_name))) => {
            one.eq_ignore_ascii_case(other) && !name.eq_ignore_ascii_case(other_name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows MC-W66.
    #[rstest]
    #[case::aws("aws:///eu-west-1a/i-0abc", "aws:///eu-west-1/i-0abc", true)]
    #[case::gcp("gce://project/zone-b/m-1", "gce:///project/zone-b/m-1", true)]
    #[case::openstack("openstack:///5e2f", "openstack:///region/5e2f", true)]
    #[case::azure(
        "azure:///subscriptions/s/resourceGroups/g/providers/p/virtualMachines/M-1",
        "azure:///westeurope/m-1",
        true
    )]
    #[case::another_vm("aws:///eu-west-1a/i-0abc", "aws:///eu-west-1/i-0def", false)]
    #[case::empty("", "aws:///eu-west-1/i-0abc", false)]
    #[case::both_empty("", "", false)]
    #[case::no_name("aws:///", "gce:///", false)]
    fn vms_are_compared_by_the_last_part_of_their_ids(#[case] node: &str, #[case] vm: &str, #[case] same: bool) {
        assert_eq!(is_same_vm(&node.into(), &vm.into()), same);
        assert_eq!(is_same_vm(&vm.into(), &node.into()), same);
    }

    /// Shows MC-S4.
    #[rstest]
    #[case::another_instance("aws:///eu-west-1/i-0abc", "aws:///eu-west-1/i-0def", true)]
    #[case::another_instance_in_another_form("openstack:///region/5e2f", "openstack:///77aa", true)]
    #[case::another_spelling_of_the_scheme("AZURE:///a/m-1", "azure:///a/m-2", true)]
    #[case::same_instance("aws:///eu-west-1a/i-0abc", "aws:///eu-west-1/i-0abc", false)]
    #[case::same_instance_in_upper_case(
        "azure:///subscriptions/s/virtualMachines/M-1",
        "azure:///westeurope/m-1",
        false
    )]
    #[case::other_scheme("aws:///eu-west-1/i-0abc", "gce:///p/z/m-1", false)]
    #[case::no_scheme("cn-beijing.i-1", "cn-beijing.i-2", false)]
    #[case::one_has_no_scheme("i-0abc", "aws:///eu-west-1/i-0def", false)]
    #[case::empty("", "aws:///eu-west-1/i-0abc", false)]
    #[case::both_empty("", "", false)]
    #[case::no_name("aws:///", "aws:///eu-west-1/i-0abc", false)]
    #[case::no_name_of_the_scheme(":///a", ":///b", false)]
    fn ids_differ_certainly_only_within_one_scheme(#[case] one: &str, #[case] other: &str, #[case] differ: bool) {
        assert_eq!(is_other_vm(&one.into(), &other.into()), differ);
        assert_eq!(is_other_vm(&other.into(), &one.into()), differ);
        assert!(!differ || !is_same_vm(&one.into(), &other.into()));
    }
}
