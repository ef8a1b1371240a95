//! Names of machines: in provider IDs, on disk, and for the kernel.

use std::fmt::Write as _;

use api::ProviderId;
use driver::{DriverError, MachineRequest};

use crate::state::Scope;

/// Maximum length of a host name and of a label value.
const LONGEST_NAME: usize = 63;

/// Returns the provider ID of a machine.
pub fn provider_id(provider: &str, cluster: &str, machine: &str) -> ProviderId {
    ProviderId::from(format!("{provider}:///{cluster}/{machine}"))
}

/// Returns the machine of a provider ID. Fails if it belongs to another cluster.
pub fn machine_of(provider: &str, provider_id: &str, cluster: &str) -> Result<String, DriverError> {
    let parts = provider_id.strip_prefix(&format!("{provider}:///")).and_then(|rest| rest.split_once('/'));
    match parts {
        Some((its, machine)) if its == cluster && name_problem(machine).is_none() => Ok(machine.to_owned()),
        Some((its, _)) if its != cluster => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: belongs to cluster {its:?}, but the class to {cluster:?}"
        ))),
        _ => Err(DriverError::invalid(format!(
            "spec.providerID: Invalid value: {provider_id:?}: must have the form {provider}:///<cluster>/<machine>"
        ))),
    }
}

/// Returns why a text is not a valid name of a machine or a cluster. Names are used as host names and in paths.
pub fn name_problem(name: &str) -> Option<&'static str> {
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

/// Returns the name of the requested machine.
pub fn named(request: &MachineRequest) -> Result<String, DriverError> {
    let name = request.machine_name();
    match name_problem(name) {
        None => Ok(name.to_owned()),
        Some(problem) => Err(DriverError::invalid(format!("metadata.name: Invalid value: {name:?}: {problem}"))),
    }
}

/// Returns sixteen bytes that identify a machine on this host, even if machines in different state directories have the
/// same name.
pub fn key(scope: &Scope, machine: &str) -> [u8; 16] {
    let subject = format!("{}\0{}\0{machine}", scope.state.display(), scope.cluster);
    let digest = ring::digest::digest(&ring::digest::SHA256, subject.as_bytes());
    let mut key = [0; 16];
    for (to, from) in key.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    key
}

/// Returns the beginning of the key, for short names.
pub fn short_key(scope: &Scope, machine: &str) -> String {
    key(scope, machine).iter().take(5).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        text
    })
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
        assert_eq!(machine_of("host", id, "shoot").ok().as_deref(), machine);
        assert_eq!(provider_id("host", "shoot", "m-1"), "host:///shoot/m-1");
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
    fn keys_differ_by_machine_cluster_and_state_directory() {
        let scope = |state: &str, cluster: &str| Scope { cluster: cluster.into(), state: state.into() };
        let one = scope("/a", "c");
        let all = [key(&one, "m"), key(&scope("/b", "c"), "m"), key(&scope("/a", "d"), "m"), key(&one, "n")];
        assert!(all.iter().enumerate().all(|(at, key)| !all[..at].contains(key)), "{all:?}");
        assert_eq!(short_key(&one, "m").len(), 10);
    }
}
