//! The network link between the host and the namespaces: a pair of virtual interfaces, which is removed with the
//! namespaces.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lab_node::network::Network;
use tokio::time::{Instant, sleep};

/// The end on the host.
const HOST_END: &str = "millwright-up";
/// The other end, on the bridge of the Machines.
pub(super) const INNER_END: &str = "host";
/// Timeout for the namespaces and for the link.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Fails if the host has routes to addresses of the network, or a link of another `up`.
pub(super) fn is_free(network: Network) -> anyhow::Result<()> {
    ensure!(
        ip(&["link", "show", "dev", HOST_END]).is_err(),
        "another `millwright up` runs on this host. Run `millwright down` first"
    );
    let routes = ip(&["-4", "route", "show", "table", "all"])?;
    if let Some(route) = network.taken_by(&routes) {
        bail!(
            "addresses that begin with {network} or {} are in use on this host ({route}). Set --network",
            network.pods()
        );
    }
    Ok(())
}

/// Connects the host with the network namespace of this process, as soon as the process has its own.
pub(super) async fn connect(process: u32, network: Network) -> anyhow::Result<()> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    let own = namespace("self").context("failed to find the network namespace of this process")?;
    let (begin, process) = (Instant::now(), process.to_string());
    while namespace(&process).context("the started process ended immediately")? == own {
        ensure!(begin.elapsed() < TIMEOUT, "no namespaces were created within {} s", TIMEOUT.as_secs());
        sleep(POLL_INTERVAL).await;
    }
    ip(&["link", "add", HOST_END, "type", "veth", "peer", "name", INNER_END, "netns", &process])?;
    ip(&["address", "add", &format!("{}/16", network.host()), "dev", HOST_END])?;
    ip(&["link", "set", "dev", HOST_END, "up"])?;
    ip(&["route", "add", &format!("{}.0.0/16", network.pods()), "via", &network.gateway().to_string()])?;
    Ok(())
}

/// Attaches the inner end to the bridge as soon as it exists.
pub(super) async fn join_bridge() -> anyhow::Result<()> {
    let begin = Instant::now();
    while ip(&["link", "show", "dev", INNER_END]).is_err() {
        ensure!(
            begin.elapsed() < TIMEOUT,
            "the network link to the host was not created within {} s",
            TIMEOUT.as_secs()
        );
        sleep(POLL_INTERVAL).await;
    }
    ip(&["link", "set", "dev", INNER_END, "master", "br0", "up"]).map(drop)
}

/// Removes the link. The kernel removes it with its namespace too, but keeps the namespace while a connection in it
/// waits for a response of a removed Machine.
pub(super) fn remove() -> anyhow::Result<()> {
    match ip(&["link", "delete", "dev", HOST_END]) {
        Err(error) if ip(&["link", "show", "dev", HOST_END]).is_ok() => Err(error),
        _ => Ok(()),
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let ended = Command::new("ip").args(arguments).output().context("failed to run ip (Debian: iproute2)")?;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "ip {}: {}", arguments.join(" "), stderr.trim());
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
