//! Namespaces that hold a control plane and its machines.
//!
//! When their init dies, however it comes to that, the kernel ends everything in them: processes, mounts, links. What is left are files and empty
//! cgroups, which no namespace hides.

use std::process::Command;

use crate::network::Network;

/// The program that makes them.
pub const UNSHARE: &str = "unshare";

/// Of their own: processes, which end with the first of them, what is mounted, and links.
const ARGUMENTS: [&str; 8] =
    ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"];

/// Makes a bridge and routes to the pods of machines, then runs a program.
const INIT: &str = include_str!("init.sh");

/// Tries everything that a machine is made of.
const PROBE: &str = include_str!("probe.sh");

/// Arguments of [`UNSHARE`] after which a program and its arguments follow, which runs in new namespaces on a bridge `br0`. `name` is what `ps` shows.
pub fn around(network: Network, name: &str) -> Vec<String> {
    let init = ["sh", "-c", INIT, name].map(str::to_owned);
    ARGUMENTS.map(str::to_owned).into_iter().chain(init).chain([network.to_string(), network.pods()]).collect()
}

/// Why this host cannot have machines of provider `host`.
pub fn forbidden() -> Option<String> {
    let namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "sh", "-c", PROBE];
    match Command::new(UNSHARE).args(namespaces).output() {
        Err(error) => Some(format!("unshare (Debian: util-linux) does not run: {error}")),
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => {
            let said = String::from_utf8_lossy(&tried.stderr).trim().to_owned();
            Some(format!(
                "machines need root, namespaces, cgroups, a bridge and an overlay, and this host has not all of it: {said}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::OF_SUITES;

    #[test]
    fn what_runs_inside_follows_the_networks() {
        let words = around(OF_SUITES, "name");
        assert_eq!(words.get(11..), Some(["name", "10.76", "10.77"].map(str::to_owned).as_slice()));
    }
}
