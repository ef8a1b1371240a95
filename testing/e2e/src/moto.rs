//! moto for suites and manual tests: installs the version that the repository pins, and prints the progress.

use cloud_fakes::moto::{Cache, Installation, Installer, Progress, Requirements};

/// Returns the moto that `hack/moto/requirements.txt` pins, from the user's cache or newly installed.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn installed() -> anyhow::Result<Installation> {
    let (requirements, cache) = (Requirements::of_this_repository()?, Cache::of_this_user()?);
    let tell = |progress| eprintln!("moto: {}", sentence(progress));
    Ok(Installer::default().install(&requirements, &cache, tell).await?)
}

fn sentence(progress: Progress) -> &'static str {
    match progress {
        Progress::WaitingForAnother => "another process is installing moto; waiting",
        Progress::MakingEnvironment => "creating a virtualenv",
        Progress::FetchingPackages => {
            "fetching the packages of hack/moto/requirements.txt (300 MB, one to two minutes)"
        }
    }
}
