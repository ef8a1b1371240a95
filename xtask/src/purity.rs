//! Decisions must not be able to wait, to look at a clock or to talk to anyone. What a crate cannot link it cannot call, so
//! the dependency tree of `plan` is the proof.

use anyhow::bail;

use e2e::workspace::cargo_output;

const PURE: &[&str] = &["millwright-plan", "millwright-api", "millwright-operator"];
const IMPURE: &[&str] = &[
    "tokio",
    "hyper",
    "hyper-util",
    "kube-client",
    "kube-runtime",
    "tower",
    "reqwest",
    "async-std",
    "fastrand",
    "rand",
    "prometheus",
    "tracing",
];

/// Fails when a pure crate can reach an impure one.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn check() -> anyhow::Result<()> {
    for package in PURE {
        let tree =
            cargo_output(&["tree", "--package", package, "--edges", "normal", "--prefix", "none", "--format", "{p}"])?;
        let found: Vec<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| IMPURE.contains(name))
            .collect();
        if !found.is_empty() {
            bail!(
                "{package} depends on {}: decisions must stay pure. `cargo tree -p {package} -i <crate>` shows by which way",
                found.join(", ")
            );
        }
        println!("purity: {package} reaches none of {}", IMPURE.join(", "));
    }
    Ok(())
}
