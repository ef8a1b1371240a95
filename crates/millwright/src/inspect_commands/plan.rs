//! `millwright plan`: simulates the effect of applying files.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use forecast::{Options, Times, forecast, svg, text};
use serde_json::Value;

use super::cluster::Clusters;
use super::files::documents;
use super::{answer, wait_for};
use crate::cli::Plan;

/// Reads the cluster, then runs the simulation on its own runtime with paused time, which advances when all tasks wait.
pub(super) fn run(options: &Plan) -> anyhow::Result<ExitCode> {
    let changed = objects(documents(&options.files)?);
    let (cluster, now) = wait_for(async {
        let clusters = Clusters::open(&options.clusters)?;
        Ok((clusters.all().await?, clusters.now()))
    })?;
    let times = Times::of(&cluster, options.boot_time, options.delete_time, options.pod_end_time);
    let simulation = Options { quota: options.quota, horizon: options.horizon, now };
    let virtual_time = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("failed to start the async runtime")?;
    let result = virtual_time.block_on(forecast(&cluster, &changed, &times, simulation)).map_err(|why| anyhow!(why))?;
    if let Some(path) = &options.svg {
        std::fs::write(path, svg(&result)).with_context(|| format!("failed to write {}", path.display()))?;
    }
    answer(options.output, &result, || text(&result))?;
    Ok(if result.finished { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the single objects and the items of lists.
fn objects(documents: Vec<Value>) -> Vec<Value> {
    let items = |mut document: Value| match document.get_mut("items").map(Value::take) {
        Some(Value::Array(all)) => all,
        _ => vec![document],
    };
    documents.into_iter().flat_map(items).collect()
}
