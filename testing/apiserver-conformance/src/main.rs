//! Holds an API server to every case; `cargo xtask conformance` calls this.

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use apiserver_conformance::{Conversation, Outcome, Report, ServerUnderTest, run_all};
use clap::{ArgGroup, Parser};
use futures::StreamExt as _;

/// How many requests a generated conversation has.
const LENGTH: usize = 30;

#[derive(Parser)]
#[command(name = "conformance", about = "Holds an API server to what Kubernetes API servers do")]
#[command(group(ArgGroup::new("server").required(true)))]
struct Arguments {
    /// The server of this kubeconfig. It gets a namespace for each case, custom kinds, and nodes that nobody runs.
    #[arg(long, value_name = "FILE", group = "server")]
    kubeconfig: Option<PathBuf>,
    /// The server in memory.
    #[arg(long, group = "server")]
    in_memory: bool,
    /// Ask the server of the kubeconfig and the one in memory the same, for these seeds (as `1..200`), and write down what the
    /// former said where they differ.
    #[arg(long, value_name = "FROM..TO", value_parser = seeds, requires = "kubeconfig")]
    compare: Option<Range<u64>>,
    /// Where to write conversations in which the servers differ.
    #[arg(long, value_name = "FOLDER", default_value = "target/e2e/differences")]
    differences: PathBuf,
    /// Write down every conversation, not only those that differ.
    #[arg(long)]
    record: bool,
    /// Where to write the outcomes as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Only topics and cases whose name contains this.
    #[arg(default_value = "")]
    only: String,
}

/// A sentence for the person who called, whatever RUST_BACKTRACE says.
#[allow(clippy::print_stderr, reason = "a suite reports to the person who runs it")]
fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("failed to start tokio")?;
    let report = runtime.block_on(async {
        match &arguments.compare {
            Some(seeds) => compare(arguments, seeds.clone()).await,
            None => hold(arguments).await,
        }
    })?;
    conclude(arguments, &report)
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
async fn hold(arguments: &Arguments) -> anyhow::Result<Report> {
    let server_under_test = server_under_test(arguments).await?;
    Ok(run_all(&server_under_test, &arguments.only, |outcome| println!("{outcome}")).await)
}

async fn server_under_test(arguments: &Arguments) -> anyhow::Result<ServerUnderTest> {
    match &arguments.kubeconfig {
        Some(path) => ServerUnderTest::real(path).await,
        None => Ok(ServerUnderTest::in_memory()),
    }
}

/// Says the same to both servers, a few seeds at a time.
#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
async fn compare(arguments: &Arguments, seeds: Range<u64>) -> anyhow::Result<Report> {
    let (real, ours) = (server_under_test(arguments).await?, ServerUnderTest::in_memory());
    let folder = &arguments.differences;
    std::fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    let outcomes = futures::stream::iter(seeds).map(|seed| compare_one(arguments, &real, &ours, seed));
    let mut outcomes = outcomes.buffer_unordered(4);
    let mut all = Vec::new();
    while let Some(outcome) = outcomes.next().await {
        let outcome = outcome?;
        println!("{outcome}");
        all.push(outcome);
    }
    real.give_back().await;
    Ok(Report::of(all))
}

async fn compare_one(
    arguments: &Arguments,
    real: &ServerUnderTest,
    ours: &ServerUnderTest,
    seed: u64,
) -> anyhow::Result<Outcome> {
    let begin = tokio::time::Instant::now();
    let conversation = Conversation::with(real, seed, LENGTH).await.map_err(|difference| anyhow!("{difference}"))?;
    let difference = ours.keeping_house(conversation.repeat_on(ours)).await.err();
    if arguments.record || difference.is_some() {
        let path = arguments.differences.join(format!("seed-{seed}.json"));
        std::fs::write(&path, conversation.to_text()?)
            .with_context(|| format!("failed to write {}", path.display()))?;
    }
    let difference = difference.map(|difference| difference.to_string());
    Ok(Outcome { topic: "conversations", name: format!("seed {seed}"), difference, took: begin.elapsed() })
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.filter(|seeds| !seeds.is_empty()).ok_or_else(|| "expected a range such as 1..200".to_owned())
}

#[allow(clippy::print_stdout, reason = "a suite reports to the person who runs it")]
fn conclude(arguments: &Arguments, report: &Report) -> anyhow::Result<ExitCode> {
    if let Some(path) = &arguments.report {
        let text = format!("{:#}\n", report.to_json());
        std::fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    println!("{report}");
    Ok(if report.failed() == 0 && report.passed() > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
