//! How machines are named as links and as cgroups.

use lab_host_common::Scope;
use lab_host_common::identity::short_key;

/// The host's end of the machine's link. Linux allows fifteen characters.
pub(crate) fn link(scope: &Scope, machine: &str) -> String {
    format!("mw{}", short_key(scope, machine))
}

/// The machine's cgroup, in each hierarchy. It has no parent of ours, so none is left when the last machine goes.
pub(crate) fn cgroup(scope: &Scope, machine: &str) -> String {
    format!("millwright-host.{machine}.{}", short_key(scope, machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_fit_into_fifteen_characters_and_differ_by_cluster_and_state_directory() {
        let scope = |state: &str, cluster: &str| Scope { cluster: cluster.into(), state: state.into() };
        let (one, two) = (scope("/a", "c"), scope("/b", "c"));
        let all = [link(&one, "m"), link(&two, "m"), link(&scope("/a", "d"), "m"), link(&one, "n")];
        assert!(all.iter().all(|name| name.len() <= 15), "{all:?}");
        assert!(all.iter().enumerate().all(|(at, name)| !all[..at].contains(name)), "{all:?}");
        assert_ne!(cgroup(&one, "m"), cgroup(&two, "m"));
    }
}
