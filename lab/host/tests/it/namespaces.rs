//! A test in network, mount and process namespaces of its own: its machines see no link of the host, and when its init ends, however that
//! happens, the kernel ends all of them.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use lab_node::namespaces;
use lab_node::network::OF_SUITES;

/// Set for a test that is inside, to what the names of its machines begin with.
const INSIDE: &str = "MILLWRIGHT_HOST_TEST_INSIDE";

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
    if let Some(why) = namespaces::forbidden() {
        println!("skipped: {test}: {why}");
        return false;
    }
    let ended = Command::new(namespaces::UNSHARE)
        .args(namespaces::around(OF_SUITES, "init"))
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
    false
}
