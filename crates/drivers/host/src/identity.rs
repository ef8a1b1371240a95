//! How machines are named: in provider ids, on disk, as links and as cgroups.

use std::fmt::Write as _;
use std::path::Path;

use api::ProviderId;
use driver::DriverError;

/// The longest host name, which is also the longest value of a label.
const LONGEST_NAME: usize = 63;

/// The provider id of a machine.
pub(crate) fn provider_id(cluster: &str, machine: &str) -> ProviderId {
    ProviderId::from(format!("host:///{cluster}/{machine}"))
}

/// The machine that a provider id of this cluster names. One of another cluster is not ours to look at.
pub(crate) fn machine_of(provider_id: &str, cluster: &str) -> Result<String, DriverError> {
    let parts = provider_id.strip_prefix("host:///").and_then(|rest| rest.split_once('/'));
    match parts {
        Some((its, machine)) if its == cluster && name_problem(machine).is_none() => Ok(machine.to_owned()),
        Some((its, _)) if its != cluster => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: names a machine of cluster {its:?}, the class one of {cluster:?}"
        ))),
        _ => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: must have the form host:///<cluster>/<machine>"
        ))),
    }
}

/// What keeps a text from being the name of a machine or a cluster here: it becomes a host name, and a part of paths.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let at_ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if name.is_empty() {
        Some("must not be empty")
    } else if name.len() > LONGEST_NAME {
        Some("must have at most 63 characters, as a host name has")
    } else if !name.chars().all(allowed) || !name.starts_with(at_ends) || !name.ends_with(at_ends) {
        Some("must consist of lower case letters, digits, '-' and '.', with a letter or digit at both ends")
    } else {
        None
    }
}

/// What tells a machine from all others of this host, also from one of the same name with another state directory.
fn key(state: &Path, cluster: &str, machine: &str) -> String {
    let subject = format!("{}\0{cluster}\0{machine}", state.display());
    let digest = ring::digest::digest(&ring::digest::SHA256, subject.as_bytes());
    digest.as_ref().iter().take(5).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
}

/// The host's end of the machine's link. Linux allows fifteen characters.
pub(crate) fn link(state: &Path, cluster: &str, machine: &str) -> String {
    format!("mw{}", key(state, cluster, machine))
}

/// The machine's cgroup, in each hierarchy. It has no parent of ours, so none is left when the last machine goes.
pub(crate) fn cgroup(state: &Path, cluster: &str, machine: &str) -> String {
    format!("millwright-host.{machine}.{}", key(state, cluster, machine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("host:///shoot/m-1", Some("m-1"))]
    #[case("host:///other/m-1", None)]
    #[case("host:///shoot/../m", None)]
    #[case("host:///shoot/", None)]
    #[case("aws:///eu-west-1/i-1", None)]
    #[case("m-1", None)]
    fn a_provider_id_names_a_machine_of_its_cluster_only(#[case] id: &str, #[case] machine: Option<&str>) {
        assert_eq!(machine_of(id, "shoot").ok().as_deref(), machine);
        assert_eq!(provider_id("shoot", "m-1"), "host:///shoot/m-1");
    }

    #[rstest]
    #[case("pool-a-7d9fc-x2x5q", true)]
    #[case("a.b", true)]
    #[case("", false)]
    #[case(".", false)]
    #[case("..", false)]
    #[case("a/b", false)]
    #[case("A", false)]
    #[case("a b", false)]
    #[case("a-", false)]
    fn a_name_is_one_part_of_a_path_and_a_host_name(#[case] name: &str, #[case] good: bool) {
        assert_eq!(name_problem(name).is_none(), good);
        assert!(name_problem(&"a".repeat(64)).is_some());
    }

    #[test]
    fn links_fit_into_fifteen_characters_and_differ_by_cluster_and_state_directory() {
        let (one, two) = (Path::new("/a"), Path::new("/b"));
        let all = [link(one, "c", "m"), link(two, "c", "m"), link(one, "d", "m"), link(one, "c", "n")];
        assert!(all.iter().all(|name| name.len() <= 15), "{all:?}");
        assert!(all.iter().enumerate().all(|(at, name)| !all[..at].contains(name)), "{all:?}");
        assert_ne!(cgroup(one, "c", "m"), cgroup(two, "c", "m"));
    }
}
