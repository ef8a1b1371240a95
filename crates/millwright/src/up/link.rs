//! The host's way into the namespaces: a pair of virtual interfaces, which goes with them.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lab_node::network::Network;
use tokio::time::{Instant, sleep};

/// The host's end.
const OUTSIDE: &str = "millwright-up";
/// The other end, on the bridge of the machines.
pub(super) const INSIDE: &str = "host";
/// How long namespaces may take to be there, and their link.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(20);

/// Fails if the host knows ways to addresses that ours would hide, or has a link of another `up`.
pub(super) fn is_free(network: Network) -> anyhow::Result<()> {
    ensure!(
        ip(&["link", "show", "dev", OUTSIDE]).is_err(),
        "another `millwright up` runs on this host: take it down first"
    );
    let routes = ip(&["-4", "route", "show", "table", "all"])?;
    if let Some(route) = network.taken_by(&routes) {
        bail!(
            "addresses that begin with {network} or {} are taken on this host ({route}): say --network",
            network.pods()
        );
    }
    Ok(())
}

/// Connects the host with the network namespace of this process, once that is not ours any more.
pub(super) async fn connect(process: u32, network: Network) -> anyhow::Result<()> {
    let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/net"));
    let own = namespace("self").context("failed to find our network namespace")?;
    let (begin, process) = (Instant::now(), process.to_string());
    while namespace(&process).context("what was started ended at once")? == own {
        ensure!(begin.elapsed() < PATIENCE, "no namespaces were made within {} s", PATIENCE.as_secs());
        sleep(GLANCE).await;
    }
    ip(&["link", "add", OUTSIDE, "type", "veth", "peer", "name", INSIDE, "netns", &process])?;
    ip(&["address", "add", &format!("{}/16", network.host()), "dev", OUTSIDE])?;
    ip(&["link", "set", "dev", OUTSIDE, "up"])?;
    ip(&["route", "add", &format!("{}.0.0/16", network.pods()), "via", &network.gateway().to_string()])?;
    Ok(())
}

/// Puts the inner end on the bridge when it is there.
pub(super) async fn join_bridge() -> anyhow::Result<()> {
    let begin = Instant::now();
    while ip(&["link", "show", "dev", INSIDE]).is_err() {
        ensure!(begin.elapsed() < PATIENCE, "nobody connected us to the host within {} s", PATIENCE.as_secs());
        sleep(GLANCE).await;
    }
    ip(&["link", "set", "dev", INSIDE, "master", "br0", "up"]).map(drop)
}

/// Removes it. It goes with its namespace, too, but the kernel keeps that for as long as a connection in it waits for an answer of a machine that is
/// gone.
pub(super) fn remove() -> anyhow::Result<()> {
    match ip(&["link", "delete", "dev", OUTSIDE]) {
        Err(error) if ip(&["link", "show", "dev", OUTSIDE]).is_ok() => Err(error),
        _ => Ok(()),
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<String> {
    let ended = Command::new("ip").args(arguments).output().context("failed to run ip (Debian: iproute2)")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "ip {}: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
