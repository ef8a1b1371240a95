//! Namespaces for a control plane and its machines.
//!
//! When their init ends, the kernel removes everything in them: processes, mounts, links. Only files and empty cgroups
//! remain, which are not namespaced.

use std::process::Command;

use crate::network::Network;

/// The program that creates them.
pub const UNSHARE: &str = "unshare";

/// Separate namespaces: network, mounts and processes, which are killed with the first of them.
const ARGUMENTS: [&str; 8] =
    ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"];

/// Creates a bridge and routes to the pods of machines, then runs a program.
const INIT: &str = include_str!("init.sh");

/// Tries everything that a machine needs.
const PROBE: &str = include_str!("probe.sh");

/// Returns the arguments of [`UNSHARE`] before a program and its arguments, which run in new namespaces with a bridge
/// `br0`. `name` is shown by `ps`.
pub fn around(network: Network, name: &str) -> Vec<String> {
    let init = ["sh", "-c", INIT, name].map(str::to_owned);
    ARGUMENTS.map(str::to_owned).into_iter().chain(init).chain([network.to_string(), network.pods()]).collect()
}

/// Returns why machines of provider `host` are not possible on this host.
pub fn forbidden() -> Option<String> {
    let namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "sh", "-c", PROBE];
    match Command::new(UNSHARE).args(namespaces).output() {
        Err(error) => Some(format!("failed to run unshare (Debian: util-linux): {error}")),
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => {
            let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            Some(format!(
                "machines require root, namespaces, cgroups, a bridge and an overlay, which this host lacks: {said}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::OF_SUITES;

    #[test]
    fn the_program_follows_the_networks() {
        let words = around(OF_SUITES, "name");
        assert_eq!(words.get(11..), Some(["name", "10.76", "10.77"].map(str::to_owned).as_slice()));
    }
}
