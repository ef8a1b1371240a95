//! Tells the program which commit it is made from: `MILLWRIGHT_COMMIT` where a build says so (an image has no checkout), otherwise what git says.

use std::path::Path;
use std::process::Command;

#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "cargo talks to build scripts by environment and stdout"
)]
fn main() {
    println!("cargo::rerun-if-env-changed=MILLWRIGHT_COMMIT");
    // Written by each commit and checkout. Cargo would run this script each time if it named a file that is not there.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
    let told = std::env::var("MILLWRIGHT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(|| git(&["rev-parse", "--short=12", "HEAD"])).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=MILLWRIGHT_COMMIT={commit}");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
