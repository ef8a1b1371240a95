//! Selects the VMs of the cluster.
//!
//! A VM in a driver's list without a Machine is deleted as orphan. The filter of the cloud is therefore not trusted:
//! every returned VM is checked again and belongs to the cluster only if it carries both tags. A VM without a machine
//! name would be deleted immediately, so it is skipped and logged; an operator must decide.

use std::collections::BTreeMap;

use api::{MachineName, ProviderId};
use driver::Owners;
use driver::text::machine_name_problem;

use crate::fault::Faults;

/// The keys of the two tags that mark a VM as owned by the cluster; their values are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTags {
    /// The key of the cluster tag.
    pub cluster: String,
    /// The key of the role tag.
    pub role: String,
}

/// Patterns of the two tag keys in a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagPatterns {
    /// Contained in the key of the cluster tag.
    pub cluster: &'static str,
    /// Contained in the key of the role tag. A key that matches both patterns is a cluster tag.
    pub role: &'static str,
}

/// The VMs of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The VMs of the cluster with their machines.
    pub owners: Owners,
    /// VMs with the cluster's tags but without a machine name.
    pub nameless: Vec<ProviderId>,
}

impl ClusterTags {
    /// Returns the tag keys of a class that match these patterns. If several match, the alphabetically first is used:
    /// every call must choose the same key, or it does not find VMs created under another one. A missing key is a fault
    /// at `path`.
    pub fn among(tags: &BTreeMap<String, String>, forms: &TagPatterns, path: &str, faults: &mut Faults) -> Self {
        let cluster = tags.keys().find(|key| key.contains(forms.cluster)).cloned().unwrap_or_default();
        let is_role = |key: &&String| key.contains(forms.role) && !key.contains(forms.cluster);
        let role = tags.keys().find(is_role).cloned().unwrap_or_default();
        for (found, form) in [(&cluster, forms.cluster), (&role, forms.role)] {
            if found.is_empty() {
                faults.required(path, format!("Tag required of the form {form}****"));
            }
        }
        Self { cluster, role }
    }

    /// Returns whether a VM with these tags belongs to the cluster.
    pub fn matches(&self, tags: &BTreeMap<String, String>) -> bool {
        tags.contains_key(&self.cluster) && tags.contains_key(&self.role)
    }
}

/// Returns the VMs of the cluster, with the machine names under `name_tag`.
pub fn list<'a>(
    cluster_tags: &ClusterTags,
    name_tag: &str,
    vms: impl IntoIterator<Item = (ProviderId, &'a BTreeMap<String, String>)>,
) -> Listed {
    let mut listed = Listed::default();
    for (id, tags) in vms.into_iter().filter(|(_, tags)| cluster_tags.matches(tags)) {
        match tags.get(name_tag).filter(|name| machine_name_problem(name).is_none()) {
            Some(name) => drop(listed.owners.insert(id, MachineName::from(name.clone()))),
            None => listed.nameless.push(id),
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows CLD-8, AWS-W6.
    #[test]
    fn only_vms_with_both_tags_and_a_name_are_listed() {
        let tags = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        let cluster_tags =
            ClusterTags { cluster: "kubernetes.io/cluster/c".into(), role: "kubernetes.io/role/node".into() };
        let (cluster, role) = ((cluster_tags.cluster.as_str(), "1"), (cluster_tags.role.as_str(), ""));
        let vms = [
            ("of this cluster", tags(&[cluster, role, ("Name", "m-1")])),
            ("of another cluster", tags(&[("kubernetes.io/cluster/d", "1"), role, ("Name", "m-2")])),
            ("of another role", tags(&[cluster, ("Name", "m-3")])),
            ("nameless", tags(&[cluster, role])),
            ("empty name", tags(&[cluster, role, ("Name", "")])),
            ("untagged", tags(&[])),
        ];
        let listed = list(&cluster_tags, "Name", vms.iter().map(|(id, tags)| (ProviderId::from(*id), tags)));
        assert_eq!(listed.owners, Owners::from([("of this cluster".into(), "m-1".into())]));
        assert_eq!(listed.nameless, ["nameless", "empty name"]);
    }
}
