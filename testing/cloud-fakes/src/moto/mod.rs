//! moto: an EC2 and STS that somebody else wrote, as a process on loopback.
//!
//! It is a Python program from PyPI. `cargo xtask moto build` installs the versions that `hack/moto/requirements.txt` pins into the
//! user's cache, and tests start what is there. Where it is not installed a test that needs it says so by its name and
//! [counts as skipped](for_test): `cargo test` neither fetches anything nor fails for want of Python.
//!
//! What it does not do as AWS does is in `docs/contributing/testing.md`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let Some(moto) = cloud_fakes::moto::for_test("an_instance_is_made").await? else { return Ok(()) };
//! let endpoint = moto.endpoint();
//! # Ok(())
//! # }
//! ```

mod cache;
mod install;
mod requirements;
mod server;

pub use cache::{Cache, Installation, Missing};
pub use install::{InstallError, Installer, Progress};
pub use requirements::{Requirements, RequirementsError};
pub use server::{Moto, StartError, for_test};
