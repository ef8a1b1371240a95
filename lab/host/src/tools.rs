//! Required programs of the host.

use driver::DriverError;
use lab_host_common::tools::{Needed, Settings};

/// Programs and their Debian packages.
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

/// Checks the privileges and programs that machines require.
pub(crate) fn check(settings: &Settings) -> Result<(), DriverError> {
    let is_root = rustix::process::geteuid().is_root();
    let lacks =
        (!is_root).then_some("the driver of provider \"host\" creates namespaces and mounts, which requires root");
    lab_host_common::tools::check(lacks, &NEEDED, |program| settings.has(program))
}
