//! Checks that a killed OpenStack leaves nothing on the host.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::leftovers::processes;
use tokio::time::{Instant, sleep};

use crate::suites::program::this_program;

/// Timeout for the clean-up. The sweeper may run for ten seconds after the last process has ended.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts an OpenStack as a user would, kills its holder, and checks what is left.
pub(super) async fn killed() -> anyhow::Result<()> {
    let before = listed()?;
    let name = format!("killed-{}", std::process::id());
    let mut holder = Command::new(this_program()?)
        .args(["openstack", "start", "--foreground", "--name", &name])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("failed to start the holder")?;
    let mut said = String::new();
    if let Some(stdout) = holder.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).context("failed to read from the holder")?;
    }
    let target = Path::new(said.trim());
    let home = target.parent().context("the holder printed no target")?;
    // Processes do not name their lab, but all of them are in its PID namespace, whose init writes its id to a file.
    let init = fs::read_to_string(home.join("pid")).context("failed to read the id of the lab's init")?;
    let namespace =
        fs::read_link(format!("/proc/{}/ns/pid", init.trim())).context("failed to read the lab's namespace")?;
    let services = inhabitants(&namespace).len();
    ensure!(target.is_file() && services > 10, "only {services} processes are running");
    holder.kill().context("failed to kill the holder")?;
    holder.wait().context("failed to wait for the holder")?;
    let begin = Instant::now();
    loop {
        let after = listed()?;
        let mut left: Vec<String> = after.difference(&before).cloned().collect();
        left.extend(processes(home));
        left.extend(inhabitants(&namespace).into_iter().map(|pid| format!("process {pid}")));
        left.extend(home.exists().then(|| home.display().to_string()));
        if left.is_empty() {
            break;
        }
        ensure!(begin.elapsed() < TIMEOUT, "left on the host: {left:?}");
        sleep(Duration::from_millis(200)).await;
    }
    // The name was reserved by the holder; `stop` removes its files.
    let forgotten = Command::new(this_program()?).args(["openstack", "stop", "--name", &name]).output();
    ensure!(forgotten.is_ok_and(|ended| ended.status.success()), "the name {name} is still taken");
    Ok(())
}

/// Returns the processes in a namespace.
fn inhabitants(namespace: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let inside = all.filter(|entry| fs::read_link(entry.path().join("ns/pid")).is_ok_and(|its| its == namespace));
    inside.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns mounts and links.
fn listed() -> anyhow::Result<BTreeSet<String>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("failed to list mounts")?;
    let links = Command::new("ip").args(["-brief", "link"]).output().context("failed to list links")?;
    let links = String::from_utf8_lossy(&links.stdout).into_owned();
    let names = links.lines().filter_map(|line| line.split_whitespace().next());
    let mut all: BTreeSet<String> = mounts.lines().map(|line| format!("mount {line}")).collect();
    all.extend(names.map(|name| format!("link {name}")));
    Ok(all)
}
