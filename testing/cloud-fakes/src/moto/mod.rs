//! moto: a third-party EC2 and STS, as a process on loopback.
//!
//! It is a Python program from PyPI. `cargo xtask moto build` installs the versions that `hack/moto/requirements.txt` pins into the
//! user's cache, and tests start what is there. If it is not installed, a test that needs it prints its name and
//! [counts as skipped](for_test): `cargo test` neither downloads anything nor fails without Python.
//!
//! Its differences from AWS are in `docs/contributing/testing.md`.
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
