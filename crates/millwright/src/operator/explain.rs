//! `millwright explain`.

use std::process::ExitCode;

use anyhow::anyhow;
use operator::explain::{Explained, of};

use super::answer;
use super::cluster::{Clusters, Depth, Freshness};
use super::named::object;
use crate::cli::Explain;

pub(super) async fn run(options: &Explain) -> anyhow::Result<ExitCode> {
    let (kind, name) = object(&options.object, None)?;
    let depth = if kind == Explained::Machine { Depth::Drain(name.clone()) } else { Depth::Machines };
    let snapshot = Clusters::open(&options.clusters)?.snapshot(&depth, Freshness::Newest).await?;
    let explanation = of(&snapshot, kind, &name).map_err(|missing| anyhow!(missing))?;
    answer(options.output, &explanation, || explanation.text())?;
    Ok(ExitCode::SUCCESS)
}
