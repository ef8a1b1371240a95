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
use crate::cli::{Form, Status};

/// How often somebody who watches is shown the state.
const EVERY: Duration = Duration::from_secs(2);

pub(super) async fn run(options: &Status) -> anyhow::Result<ExitCode> {
    let clusters = Clusters::open(&options.clusters)?;
    if options.watch {
        return watch(options, &clusters).await;
    }
    let tree = look(options, &clusters, Freshness::Newest).await?;
    answer(options.output, &tree, || text(options, &tree))?;
    Ok(ExitCode::SUCCESS)
}

async fn look(options: &Status, clusters: &Clusters, freshness: Freshness) -> anyhow::Result<Tree> {
    let snapshot = clusters.snapshot(&Depth::Machines, freshness).await?;
    tree::of(&snapshot, &options.deployments).map_err(|missing| anyhow!(missing))
}

fn text(options: &Status, tree: &Tree) -> String {
    render(tree, if options.unfold { Fold::Nothing } else { Fold::Fine }, paint())
}

/// Until it is interrupted, or nobody reads any more.
async fn watch(options: &Status, clusters: &Clusters) -> anyhow::Result<ExitCode> {
    let redraws = options.output == Form::Text && std::io::stdout().is_terminal();
    let mut before = Value::Null;
    loop {
        let tree = look(options, clusters, Freshness::Cached).await?;
        let state = state(&tree)?;
        let shown = match options.output {
            Form::Text if redraws => format!("\x1b[H\x1b[2J{}", text(options, &tree)),
            Form::Text => text(options, &tree),
            Form::Json => printable_json(&serde_json::to_string(&tree).context("failed to write JSON")?),
            Form::Yaml => format!("---\n{}", yaml(&tree)?),
        };
        if (redraws || state != before) && writeln!(std::io::stdout(), "{}", shown.trim_end()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        before = state;
        tokio::time::sleep(EVERY).await;
    }
}

/// What has to change before it is printed again: everything but the time of the look, and what is counted from it.
fn state(tree: &Tree) -> anyhow::Result<Value> {
    let mut state = serde_json::to_value(tree).context("failed to write JSON")?;
    if let Some(fields) = state.as_object_mut() {
        fields.remove("at");
    }
    Ok(state)
}

/// Colours are for terminals, and for whoever has not said no (<https://no-color.org>).
#[allow(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
pub(crate) fn paint() -> Paint {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !refused { Paint::Ansi } else { Paint::Plain }
}
