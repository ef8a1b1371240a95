//! What this program is made from, as `--version`, the log and a metric tell it.

/// The version of the release it belongs to.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from; `unknown` outside of a checkout that nobody named.
pub(crate) const COMMIT: &str = env!("MILLWRIGHT_COMMIT");
/// Both, as a person reads them.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MILLWRIGHT_COMMIT"), ")");
