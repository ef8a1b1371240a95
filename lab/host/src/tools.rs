//! The programs of the host that do the work, and what is said where one is missing.

use driver::DriverError;
use lab_host_common::tools::{Needed, Settings};

/// Each program and the package of Debian that has it.
const NEEDED: [Needed; 8] = [
    ("sh", "dash"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("pivot_root", "util-linux"),
    ("setsid", "util-linux"),
    ("unshare", "util-linux"),
    ("sleep", "coreutils"),
];

/// Whether the process may make machines, and has what it needs for it.
pub(crate) fn check(settings: &Settings) -> Result<(), DriverError> {
    let is_root = rustix::process::geteuid().is_root();
    let lacks = (!is_root).then_some("the driver of provider \"host\" makes namespaces and mounts: run it as root");
    lab_host_common::tools::check(lacks, &NEEDED, |program| settings.has(program))
}
