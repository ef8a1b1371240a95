//! Runs a test in separate network, mount and PID namespaces: its machines see no link of the host, and when its init
//! ends, the kernel kills all of them.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use lab_node::namespaces;
use lab_node::network::OF_SUITES;

/// Set in the inner process of a test, to the prefix of the names of its machines.
const INSIDE: &str = "MILLWRIGHT_HOST_TEST_INSIDE";

/// Returns the prefix of the names of this test's machines. Cgroups are not namespaced, so tests that run in parallel
/// distinguish theirs by the prefix.
pub(crate) fn prefix() -> String {
    #[allow(clippy::disallowed_methods, reason = "distinguishes the inner process of a test from the outer one")]
    std::env::var(INSIDE).unwrap_or_default()
}

/// Returns the cgroups of machines whose names begin with `prefix`.
pub(crate) fn cgroups(prefix: &str) -> Vec<std::path::PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let roots = mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
    let groups = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    let named =
        groups.filter(|group| group.file_name().to_string_lossy().starts_with(&format!("millwright-host.{prefix}")));
    named.map(|group| group.path()).collect()
}

/// Returns whether this is the inner process. Otherwise the test runs again as an inner process, whose result is the
/// result of the test. If the kernel forbids namespaces, the test is skipped with a message.
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
    // A failed test leaves empty cgroups, because its processes ended with its namespace.
    for group in cgroups(&prefix) {
        drop(fs::remove_dir(group));
    }
    assert!(ended.success(), "{test} failed inside its namespaces");
    false
}
