//! The link between a machine and the bridge: a veth pair with one end in the machine.

use std::fs::File;

use crate::steps::Link;
use lab_host_common::HostError;
use lab_host_common::tools::{done, last_line, run};

/// The machine's end.
const INSIDE: &str = "eth0";

/// Returns the state of the host's end. `ip` is used instead of `/sys`, which may show another network namespace.
pub(crate) async fn seen(lock: &File, link: &str, bridge: &str) -> Result<Link, HostError> {
    let output = run(lock, "ip", &["-oneline", "link", "show", "dev", link]).await?;
    if !output.status.success() {
        return Ok(Link::Absent);
    }
    Ok(judge(&String::from_utf8_lossy(&output.stdout), bridge))
}

/// Parses the output of `ip`.
fn judge(line: &str, bridge: &str) -> Link {
    let words: Vec<&str> = line.split_whitespace().collect();
    let master = words.windows(2).any(|pair| matches!(pair, ["master", name] if *name == bridge));
    let flags = words.iter().find_map(|word| word.strip_prefix('<')?.strip_suffix('>')).unwrap_or_default();
    if master && flags.split(',').any(|flag| flag == "UP") { Link::Connected } else { Link::Loose }
}

/// Creates the pair, with one end in the namespace of the machine's init.
pub(crate) async fn add(lock: &File, link: &str, init: i32) -> Result<(), HostError> {
    let init = init.to_string();
    let arguments = ["link", "add", link, "type", "veth", "peer", "name", INSIDE, "netns", &init];
    done(lock, "add the machine's link", "ip", &arguments).await
}

/// Connects the host's end to the bridge.
pub(crate) async fn connect(lock: &File, link: &str, bridge: &str) -> Result<(), HostError> {
    done(lock, "connect the machine's link to the bridge", "ip", &["link", "set", "dev", link, "master", bridge, "up"])
        .await
}

/// Removes both ends. The link may already have been removed together with its namespace.
pub(crate) async fn remove(lock: &File, link: &str) -> Result<(), HostError> {
    let output = run(lock, "ip", &["link", "delete", "dev", link]).await?;
    if output.status.success() || seen(lock, link, "").await? == Link::Absent {
        return Ok(());
    }
    Err(HostError::Failed { step: "remove the machine's link", said: last_line(&output.stderr) })
}

/// Returns whether the bridge exists.
pub(crate) async fn has_bridge(lock: &File, bridge: &str) -> Result<bool, HostError> {
    Ok(run(lock, "ip", &["-oneline", "link", "show", "dev", bridge, "type", "bridge"]).await.is_ok_and(|output| {
        // For a link of another type, `ip` succeeds without output.
        output.status.success() && !output.stdout.is_empty()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("9: mw1@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue master br0 state UP", Link::Connected)]
    #[case("9: mw1@if2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 master br0 state LOWERLAYERDOWN", Link::Connected)]
    #[case("9: mw1@if2: <BROADCAST,MULTICAST> mtu 1500 master br0 state DOWN", Link::Loose)]
    #[case("9: mw1@if2: <BROADCAST,MULTICAST,UP> mtu 1500 state UP", Link::Loose)]
    #[case("9: mw1@if2: <BROADCAST,MULTICAST,UP> mtu 1500 master br00 state UP", Link::Loose)]
    fn a_link_is_connected_when_it_is_up_and_on_its_bridge(#[case] line: &str, #[case] link: Link) {
        assert_eq!(judge(line, "br0"), link);
    }
}
