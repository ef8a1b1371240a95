//! `millwright plan`: what would happen if this were applied.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use forecast::{Options, Times, forecast, svg, text};
use serde_json::Value;

use super::cluster::Clusters;
use super::files::documents;
use super::{answer, wait_for};
use crate::cli::Plan;

/// Reads the cluster, then plays the copy on a runtime of its own, in which time passes when everybody waits.
pub(super) fn run(options: &Plan) -> anyhow::Result<ExitCode> {
    let changed = objects(documents(&options.files)?);
    let (seen, now) = wait_for(async {
        let clusters = Clusters::open(&options.clusters)?;
        Ok((clusters.all().await?, clusters.now()))
    })?;
    let times = Times::of(&seen, options.boot_time, options.delete_time, options.pod_end_time);
    let wish = Options { quota: options.quota, horizon: options.horizon, now };
    let virtual_time = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("failed to start the async runtime")?;
    let foreseen = virtual_time.block_on(forecast(&seen, &changed, &times, wish)).map_err(|why| anyhow!(why))?;
    if let Some(path) = &options.svg {
        std::fs::write(path, svg(&foreseen)).with_context(|| format!("failed to write {}", path.display()))?;
    }
    answer(options.output, &foreseen, || text(&foreseen))?;
    Ok(if foreseen.finished { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The objects of lists, and those that stand alone.
fn objects(documents: Vec<Value>) -> Vec<Value> {
    let one_by_one = |mut document: Value| match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![document],
    };
    documents.into_iter().flat_map(one_by_one).collect()
}
