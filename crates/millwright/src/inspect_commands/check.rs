//! `millwright check`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use inspect::check::{Input, References, Report, nothing, of, read};
use runtime::Clock;
use serde_json::Value;

use super::answer;
use super::cluster::{Clusters, Depth, Freshness};
use super::files::documents;
use crate::cli::Preflight;

pub(super) async fn run(options: &Preflight) -> anyhow::Result<ExitCode> {
    let report = if options.files.is_empty() { cluster(options).await? } else { files(options).await? };
    answer(options.output, &report, || report.text())?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn cluster(options: &Preflight) -> anyhow::Result<Report> {
    let clusters = Clusters::open(&options.clusters)?;
    let snapshot = clusters.snapshot(&Depth::Budgets, Freshness::Newest).await?;
    let mut report = of(&Input { snapshot: &snapshot, documents: &[], references: References::Known, about: None });
    clusters.check_permissions(&snapshot, &options.account, &mut report).await;
    Ok(report)
}

/// Checks the files alone, or as they would be in a cluster if a kubeconfig is given.
async fn files(options: &Preflight) -> anyhow::Result<Report> {
    let documents = documents(&options.files)?;
    let (before, references) = if options.clusters.kubeconfig.is_some() {
        let clusters = Clusters::open(&options.clusters)?;
        (clusters.snapshot(&Depth::Machines, Freshness::Newest).await?, References::Known)
    } else {
        let namespace = options.clusters.namespace.clone().or_else(|| namespace(&documents));
        (nothing(namespace.as_deref().unwrap_or("default"), Clock::system().now()), References::FilesOnly)
    };
    let manifests = read(documents, before);
    let about: &BTreeSet<String> = &manifests.about;
    let input =
        Input { snapshot: &manifests.snapshot, documents: &manifests.documents, references, about: Some(about) };
    let mut report = of(&input);
    if references == References::FilesOnly && !report.not_checked.is_empty() {
        report.not_checked.push("add --kubeconfig to resolve references against a cluster".to_owned());
    }
    Ok(report)
}

/// Returns the namespace of the first Machine API object.
fn namespace(documents: &[Value]) -> Option<String> {
    let text = |document: &Value, path: &str| document.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let objects = documents
        .iter()
        .filter(|one| text(one, "/apiVersion").is_some_and(|version| version.starts_with(api::names::GROUP)));
    objects.into_iter().find_map(|document| text(document, "/metadata/namespace"))
}
