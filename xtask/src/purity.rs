//! Checks what crates can link.
//!
//! Planners must not wait, read a clock or send requests. A crate cannot call what it cannot link, so the dependency tree is the proof.
//! The product must not depend on the test rigs: nothing in `crates/` or `drivers/` links anything in `testing/` or `lab/`, except as a
//! dev-dependency, behind the feature `dev` of the binary, or in the driver programs of the lab.

use std::path::Path;

use anyhow::bail;

use e2e::workspace::{cargo_output, root};

/// Crates that decide and describe.
const PURE: &[&str] = &["planner", "api", "meta", "inspect"];

/// Crates that wait, send, draw or measure.
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

/// Folders of the product.
const PRODUCT: [&str; 2] = ["crates", "drivers"];

/// Folders that the product does not link.
const RIGS: [&str; 2] = ["testing", "lab"];

/// Packages with features that link a rig, and the features that do not.
const FEATURES: [(&str, &str); 2] =
    [("millwright", "inspect,otel,aws,openstack"), ("driver-programs", "aws,openstack")];

/// Fails if a pure crate links an impure one, or the product links a rig.
#[allow(clippy::print_stdout, reason = "a chore prints its result")]
pub(crate) fn check() -> anyhow::Result<()> {
    for package in PURE {
        let found = dependencies(package)?;
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|name| IMPURE.contains(name)).collect();
        if !found.is_empty() {
            bail!(
                "{package} depends on {}: decisions must stay pure. `cargo tree -p {package} -i <crate>` shows the path",
                found.join(", ")
            );
        }
        println!("purity: {package} links none of {}", IMPURE.join(", "));
    }
    let members = members()?;
    let rigs: Vec<&str> = named(&members, &RIGS);
    let product = named(&members, &PRODUCT);
    for package in &product {
        let found = dependencies(package)?;
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|name| rigs.contains(name)).collect();
        if !found.is_empty() {
            bail!(
                "{package} depends on {}, which is in testing/ or lab/. Make it a dev-dependency, or put it behind the feature `dev`",
                found.join(", ")
            );
        }
    }
    println!("purity: none of the {} packages in crates/ and drivers/ links one in testing/ or lab/", product.len());
    Ok(())
}

/// The names of the packages that a package links in its shipped form.
fn dependencies(package: &str) -> anyhow::Result<Vec<String>> {
    let mut arguments =
        vec!["tree", "--package", package, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    if let Some((_, features)) = FEATURES.iter().find(|(name, _)| *name == package) {
        arguments.extend(["--no-default-features", "--features", features]);
    }
    let tree = cargo_output(&arguments)?;
    Ok(tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// The folder and name of each package of the workspace.
fn members() -> anyhow::Result<Vec<(String, String)>> {
    let metadata = cargo_output(&["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata.get("packages").and_then(serde_json::Value::as_array).into_iter().flatten();
    let member = |package: &serde_json::Value| {
        let manifest = Path::new(package.get("manifest_path")?.as_str()?);
        let folder = manifest.strip_prefix(root()).ok()?.components().next()?;
        Some((folder.as_os_str().to_string_lossy().into_owned(), package.get("name")?.as_str()?.to_owned()))
    };
    Ok(packages.filter_map(member).collect())
}

fn named<'a>(members: &'a [(String, String)], folders: &[&str]) -> Vec<&'a str> {
    let within = members.iter().filter(|(folder, _)| folders.contains(&folder.as_str()));
    within.map(|(_, name)| name.as_str()).collect()
}
