//! Names of a machine's link and cgroups.

use lab_host_common::Scope;
use lab_host_common::identity::short_key;

/// Returns the name of the host's end of the machine's link. Linux allows fifteen characters.
pub(crate) fn link(scope: &Scope, machine: &str) -> String {
    format!("mw{}", short_key(scope, machine))
}

/// Returns the name of the machine's cgroup, in each hierarchy. It has no parent cgroup, so none remains after the last
/// machine.
pub(crate) fn cgroup(scope: &Scope, machine: &str) -> String {
    format!("millwright-host.{machine}.{}", short_key(scope, machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_names_are_short_and_unique() {
        let scope = |state: &str, cluster: &str| Scope { cluster: cluster.into(), state: state.into() };
        let (one, two) = (scope("/a", "c"), scope("/b", "c"));
        let all = [link(&one, "m"), link(&two, "m"), link(&scope("/a", "d"), "m"), link(&one, "n")];
        assert!(all.iter().all(|name| name.len() <= 15), "{all:?}");
        assert!(all.iter().enumerate().all(|(at, name)| !all[..at].contains(name)), "{all:?}");
        assert_ne!(cgroup(&one, "m"), cgroup(&two, "m"));
    }
}
