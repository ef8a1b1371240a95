//! `millwright status`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use api::printable::printable_json;
use inspect::tree::{self, Fold, Paint, Tree, render};
use serde_json::Value;

use super::cluster::{Clusters, Depth, Freshness};
use super::{answer, yaml};
use crate::cli::{OutputFormat, Status};

/// Refresh interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn run(options: &Status) -> anyhow::Result<ExitCode> {
    let clusters = Clusters::open(&options.clusters)?;
    if options.watch {
        return watch(options, &clusters).await;
    }
    let tree = read(options, &clusters, Freshness::Newest).await?;
    answer(options.output, &tree, || text(options, &tree))?;
    Ok(ExitCode::SUCCESS)
}

async fn read(options: &Status, clusters: &Clusters, freshness: Freshness) -> anyhow::Result<Tree> {
    let snapshot = clusters.snapshot(&Depth::Machines, freshness).await?;
    tree::of(&snapshot, &options.deployments).map_err(|missing| anyhow!(missing))
}

fn text(options: &Status, tree: &Tree) -> String {
    render(tree, if options.unfold { Fold::Nothing } else { Fold::Healthy }, paint())
}

/// Refreshes until it is interrupted or stdout is closed.
async fn watch(options: &Status, clusters: &Clusters) -> anyhow::Result<ExitCode> {
    let redraws = options.output == OutputFormat::Text && std::io::stdout().is_terminal();
    let mut before = Value::Null;
    loop {
        let tree = read(options, clusters, Freshness::Cached).await?;
        let state = state(&tree)?;
        let shown = match options.output {
            OutputFormat::Text if redraws => format!("\x1b[H\x1b[2J{}", text(options, &tree)),
            OutputFormat::Text => text(options, &tree),
            OutputFormat::Json => printable_json(&serde_json::to_string(&tree).context("failed to serialize as JSON")?),
            OutputFormat::Yaml => format!("---\n{}", yaml(&tree)?),
        };
        if (redraws || state != before) && writeln!(std::io::stdout(), "{}", shown.trim_end()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        before = state;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns what must change before the output is printed again: everything except the time of the read and ages.
fn state(tree: &Tree) -> anyhow::Result<Value> {
    let mut state = serde_json::to_value(tree).context("failed to serialize as JSON")?;
    if let Some(fields) = state.as_object_mut() {
        fields.remove("at");
    }
    Ok(state)
}

/// Returns colours if stdout is a terminal and NO_COLOR is not set (<https://no-color.org>).
#[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
pub(crate) fn paint() -> Paint {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !refused { Paint::Ansi } else { Paint::Plain }
}
