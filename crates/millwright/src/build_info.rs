//! Build information, as shown by `--version`, the log and a metric.

/// Version of the release.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of the build. `unknown` outside of a checkout, unless the build sets it.
pub(crate) const COMMIT: &str = env!("MILLWRIGHT_COMMIT");
/// Version and commit, as text.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MILLWRIGHT_COMMIT"), ")");
