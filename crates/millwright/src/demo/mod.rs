//! `millwright demo`: a machine's life on an embedded API server and an embedded cloud.
//!
//! Nothing here is staged for show: the API server, the client, the caches, the queue, the planner and the driver are the ones
//! that run elsewhere. Only the cloud is virtual. Each line says what happened and why; the exit code says whether all went as
//! promised.

mod stage;
mod story;
mod voice;

use std::process::ExitCode;

use anyhow::Context;

use crate::cli::Demo;
use voice::Voice;

pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let kept = runtime.block_on(story::tell(Voice::new(options.output)))?;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
