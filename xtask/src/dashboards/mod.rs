//! Dashboards for Grafana, written from a table of panels: `cargo xtask dashboards`.
//!
//! A dashboard is some hundred lines of JSON of which ten matter, the queries. Those stand in [`panels`]; what surrounds them is made here, so that
//! all dashboards look alike and a renamed metric is found by a test and not by somebody who needs it at night.

mod layout;
mod panels;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use crate::alerts::promtool;
use crate::crds::Mode;
use e2e::workspace::root;
use panels::{DASHBOARDS, Dashboard};

/// Writes, or checks, `deploy/dashboards`; then lets promtool read every query.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn write(mode: Mode) -> anyhow::Result<()> {
    for dashboard in DASHBOARDS {
        let path = root().join("deploy/dashboards").join(format!("{}.json", dashboard.name));
        let text = text(dashboard)?;
        match mode {
            Mode::Write => fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?,
            Mode::Check if fs::read_to_string(&path).is_ok_and(|stored| stored == text) => {}
            Mode::Check => {
                bail!("{} is out of date; run `cargo xtask dashboards` and commit the result", path.display())
            }
        }
    }
    let queries = DASHBOARDS.iter().map(|dashboard| dashboard.queries().count()).sum::<usize>();
    match promtool::found() {
        Ok(promtool) => parse(&promtool)?,
        Err(error) => println!("skipped: no query was parsed, because promtool cannot be had here: {error:#}"),
    }
    println!("dashboards: {} files, {queries} queries", DASHBOARDS.len());
    Ok(())
}

fn text(dashboard: &Dashboard) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(&layout::of(dashboard)).context("a dashboard is no JSON")?;
    Ok(format!("{text}\n"))
}

/// Every query is one that Prometheus can read: each is handed to promtool as a recording rule.
fn parse(promtool: &Path) -> anyhow::Result<()> {
    let rules: Vec<Value> = DASHBOARDS
        .iter()
        .flat_map(Dashboard::queries)
        .enumerate()
        .map(|(number, query)| json!({ "record": format!("query:{number}"), "expr": without_variables(query) }))
        .collect();
    let folder = tempfile::tempdir().context("failed to make a folder")?;
    let file = folder.path().join("rules.json");
    fs::write(&file, json!({ "groups": [{ "name": "queries", "rules": rules }] }).to_string())?;
    let ended =
        Command::new(promtool).args(["check", "rules"]).arg(&file).output().context("failed to start promtool")?;
    ensure!(ended.status.success(), "promtool found something: {}", String::from_utf8_lossy(&ended.stderr).trim());
    Ok(())
}

/// What Grafana makes of a query.
fn without_variables(query: &str) -> String {
    query.replace("$namespace", ".*").replace("$__rate_interval", "5m")
}
