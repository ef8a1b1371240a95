//! A test in network, mount and process namespaces of its own: its machines see no link of the host, and when its init ends, however that
//! happens, the kernel ends all of them.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Set for a test that is inside, to what the names of its machines begin with.
const INSIDE: &str = "MILLWRIGHT_HOST_TEST_INSIDE";

/// Tries everything that a machine is made of.
const PROBE: &str = include_str!("../../../../../hack/host-probe.sh");

/// A shell reaps what a test's machines leave; the test itself waits only for its own children.
const INIT: &str =
    "ip link set lo up; ip link add br0 type bridge; ip address add 10.77.0.1/16 dev br0; ip link set br0 up; \"$@\"";

/// What the names of this test's machines begin with: cgroups are not namespaced, so tests that run at once tell theirs apart by it.
pub(crate) fn prefix() -> String {
    #[allow(clippy::disallowed_methods, reason = "how a test tells itself from its outer half")]
    std::env::var(INSIDE).unwrap_or_default()
}

/// Our cgroups with machines whose names begin with `prefix`.
pub(crate) fn cgroups(prefix: &str) -> Vec<std::path::PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    let groups = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    let named =
        groups.filter(|group| group.file_name().to_string_lossy().starts_with(&format!("millwright-host.{prefix}")));
    named.map(|group| group.path()).collect()
}

/// Whether this process is inside. If it is not, the test is run again inside, and what it says there is what it says here. Where the
/// kernel forbids namespaces the test is skipped, and says so.
pub(crate) fn inside(test: &str) -> bool {
    static TESTS: AtomicUsize = AtomicUsize::new(0);
    if !prefix().is_empty() {
        return true;
    }
    let prefix = format!("t{}x{}y", std::process::id(), TESTS.fetch_add(1, Ordering::Relaxed));
    let forbidden = |why: &str| println!("skipped: {test}: this host can have no machines ({why})");
    let namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork"];
    match Command::new("unshare").args(namespaces).args(["sh", "-c", PROBE]).output() {
        Err(error) => forbidden(&error.to_string()),
        Ok(tried) if !tried.status.success() => forbidden(String::from_utf8_lossy(&tried.stderr).trim()),
        Ok(_) => {
            let ended = Command::new("unshare")
                .args([
                    "--net",
                    "--mount",
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "--propagation",
                    "private",
                ])
                .args(["sh", "-c", INIT, "init"])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture", "--include-ignored"])
                .env(INSIDE, &prefix)
                .status()
                .unwrap();
            // A test that failed has left its cgroups, empty, because its processes ended with its namespace.
            for group in cgroups(&prefix) {
                drop(fs::remove_dir(group));
            }
            assert!(ended.success(), "{test} failed inside its namespaces");
        }
    }
    false
}
