//! `millwright explain`.

use std::process::ExitCode;

use anyhow::anyhow;
use inspect::explain::{Explained, of};

use super::answer;
use super::cluster::{Clusters, Depth, Freshness};
use super::object_name::object;
use crate::cli::Explain;

pub(super) async fn run(options: &Explain) -> anyhow::Result<ExitCode> {
    let (kind, name) = object(&options.object, None)?;
    let depth = if kind == Explained::Machine { Depth::Drain(name.clone()) } else { Depth::Machines };
    let clusters = Clusters::open(&options.clusters)?;
    let mut snapshot = clusters.snapshot(&depth, Freshness::Newest).await?;
    snapshot.process = clusters.query_leader(&snapshot, kind, &options.leader).await;
    let explanation = of(&snapshot, kind, &name).map_err(|missing| anyhow!(missing))?;
    answer(options.output, &explanation, || explanation.text())?;
    Ok(ExitCode::SUCCESS)
}
