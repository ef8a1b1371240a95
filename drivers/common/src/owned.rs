//! Which VMs of a cloud are this cluster's.
//!
//! Whoever is in a driver's list and has no Machine is deleted. So a cloud's filter is not trusted: every VM that it answered with is
//! looked at again, and is ours only if it carries both tags. A VM without a machine's name has no Machine by definition and would
//! be deleted at once; it is left out and told, because only a person can say whose it is.

use std::collections::BTreeMap;

use api::{MachineName, ProviderId};
use driver::Owners;
use driver::text::machine_name_problem;

use crate::fault::Faults;

/// The two tags that make a VM ours; their values do not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The key that names the cluster.
    pub cluster: String,
    /// The key that names the role.
    pub role: String,
}

/// What the two keys contain in a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forms {
    /// The key that names the cluster.
    pub cluster: &'static str,
    /// The key that names the role; one that also names a cluster is none.
    pub role: &'static str,
}

/// A list, and what was left out of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Ours, with their machines.
    pub owners: Owners,
    /// With our tags, but without the name of a machine.
    pub nameless: Vec<ProviderId>,
}

impl Marks {
    /// The keys among the tags of a class that contain these forms. With several that fit, the first in the alphabet: the choice must be the
    /// same in every call, or a VM that was made under one key is not found under the other. A key that is missing is told under `path`.
    pub fn among(tags: &BTreeMap<String, String>, forms: &Forms, path: &str, faults: &mut Faults) -> Self {
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

    /// Whether a VM with these tags is ours.
    pub fn on(&self, tags: &BTreeMap<String, String>) -> bool {
        tags.contains_key(&self.cluster) && tags.contains_key(&self.role)
    }
}

/// Those of `vms` that are ours, by the machine's name under `name_tag`.
pub fn list<'a>(
    marks: &Marks,
    name_tag: &str,
    vms: impl IntoIterator<Item = (ProviderId, &'a BTreeMap<String, String>)>,
) -> Listed {
    let mut listed = Listed::default();
    for (id, tags) in vms.into_iter().filter(|(_, tags)| marks.on(tags)) {
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
        let marks = Marks { cluster: "kubernetes.io/cluster/c".into(), role: "kubernetes.io/role/node".into() };
        let (cluster, role) = ((marks.cluster.as_str(), "1"), (marks.role.as_str(), ""));
        let vms = [
            ("ours", tags(&[cluster, role, ("Name", "m-1")])),
            ("of another cluster", tags(&[("kubernetes.io/cluster/d", "1"), role, ("Name", "m-2")])),
            ("of another role", tags(&[cluster, ("Name", "m-3")])),
            ("nameless", tags(&[cluster, role])),
            ("empty name", tags(&[cluster, role, ("Name", "")])),
            ("nobody's", tags(&[])),
        ];
        let listed = list(&marks, "Name", vms.iter().map(|(id, tags)| (ProviderId::from(*id), tags)));
        assert_eq!(listed.owners, Owners::from([("ours".into(), "m-1".into())]));
        assert_eq!(listed.nameless, ["nameless", "empty name"]);
    }
}
