//! helm, compiled from its Go module and kept in the user's cache.

use std::path::PathBuf;

use control_plane::compile::{Compiler, Progress};
use control_plane::{Cache, Program, Recipe};

/// Returns the program, compiled if necessary.
#[allow(clippy::print_stderr, reason = "a chore talks to the person who called it")]
pub async fn helm() -> anyhow::Result<PathBuf> {
    let recipe = Recipe::of_helm()?;
    let tell = |progress: Progress| {
        eprintln!("helm: {}", progress.sentence(recipe.programs().len()));
    };
    let compiled = Compiler::default().compile(&recipe, &Cache::of_this_user()?, tell).await?;
    Ok(compiled.path(Program::Helm))
}
