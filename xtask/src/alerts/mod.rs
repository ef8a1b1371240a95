//! Each alert of `deploy/alerts` fires when it must and is silent when it must be: `cargo xtask alerts`.
//!
//! The cases are those of `deploy/alerts/tests.yaml`, judged by promtool. It reads plain rules, and ours are wrapped in an object for the
//! Prometheus operator; and it compares annotations whole, of which only the summary is worth repeating. So it is handed a copy.

#[cfg(test)]
mod pages;
pub(crate) mod promtool;

#[cfg(test)]
pub(crate) use pages::metrics_in;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Map, Value};

use e2e::workspace::root;

/// Puts the rules to their tests. Where promtool cannot be had, it says so and nothing is judged.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn check() -> anyhow::Result<()> {
    let promtool = match promtool::found() {
        Ok(promtool) => promtool,
        Err(error) => {
            println!(
                "skipped: the alerts were not tried, because promtool cannot be had here (Debian: prometheus): {error:#}"
            );
            return Ok(());
        }
    };
    let folder = tempfile::tempdir().context("failed to make a folder")?;
    let deploy = root().join("deploy/alerts");
    let text = fs::read_to_string(deploy.join("rules.yaml")).context("failed to read the rules")?;
    fs::write(folder.path().join("rules.json"), plain(&text)?.to_string())?;
    fs::copy(deploy.join("tests.yaml"), folder.path().join("tests.yaml")).context("failed to copy the tests")?;
    judge(&promtool, folder.path(), &["check", "rules", "rules.json"])?;
    judge(&promtool, folder.path(), &["test", "rules", "tests.yaml"])
}

/// The rules without the object around them, and of their annotations the summary only.
fn plain(text: &str) -> anyhow::Result<Value> {
    let object: Value = serde_saphyr::from_str(text).context("the rules are no YAML")?;
    let mut rules = object.get("spec").context("the rules have no spec")?.clone();
    let groups = rules.get_mut("groups").and_then(Value::as_array_mut).into_iter().flatten();
    for rule in groups.filter_map(|group| group.get_mut("rules")?.as_array_mut()).flatten() {
        let summary = rule.pointer("/annotations/summary").cloned().context("an alert has no summary")?;
        let annotations = Map::from_iter([("summary".to_owned(), summary)]);
        if let Some(rule) = rule.as_object_mut() {
            rule.insert("annotations".to_owned(), Value::Object(annotations));
        }
    }
    Ok(rules)
}

fn judge(promtool: &Path, folder: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let ended = Command::new(promtool).args(arguments).current_dir(folder).status();
    ensure!(ended.context("failed to start promtool")?.success(), "promtool {} found something", arguments.join(" "));
    Ok(())
}
