//! moto for suites and for people: installed by the repository's own pins, with progress for whoever waits.

use cloud_fakes::moto::{Cache, Installation, Installer, Progress, Requirements};

/// The moto that `hack/moto/requirements.txt` pins: the one in the user's cache, or a new one.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn installed() -> anyhow::Result<Installation> {
    let (requirements, cache) = (Requirements::of_this_repository()?, Cache::of_this_user()?);
    let tell = |progress| eprintln!("moto: {}", sentence(progress));
    Ok(Installer::default().install(&requirements, &cache, tell).await?)
}

fn sentence(progress: Progress) -> &'static str {
    match progress {
        Progress::WaitingForAnother => "somebody else is installing the same; waiting for theirs",
        Progress::MakingEnvironment => "making a virtualenv",
        Progress::FetchingPackages => {
            "fetching the packages of hack/moto/requirements.txt; a minute or two, and 300 MB"
        }
    }
}
