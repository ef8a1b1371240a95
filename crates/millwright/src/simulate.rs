//! `millwright sim`: runs seeded fault simulations and checks the invariants at every event
//! (`docs/contributing/invariants.md`).

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;

use anyhow::{Context, anyhow};
use runtime::{Clock, Random};
use serde_json::{Value, json};
use sim::oracle::Situation;
use sim::simulation::{Detail, Profile, Report, Totals, campaign, run as run_seed, shrink};

use crate::cli::{Output, Sim};
use crate::print;

/// Number of timeline lines that are shown. The end of the timeline is where the search for a cause begins.
const LAST: usize = 60;

pub(crate) fn run(options: &Sim) -> anyhow::Result<ExitCode> {
    let profiles = profiles(&options.profile)?;
    if let Some(seed) = options.seed {
        return replay(options, &profiles, seed);
    }
    let first = options.first_seed.unwrap_or_else(|| Random::from_entropy().number() >> 16);
    let jobs = options.jobs.unwrap_or_else(|| available_parallelism().unwrap_or(NonZeroUsize::MIN));
    let mut code = ExitCode::SUCCESS;
    let (mut situations, mut runs) = (BTreeMap::<Situation, u64>::new(), 0);
    for profile in profiles {
        let clock = Clock::system();
        let begin = clock.now();
        let seeds = first..first.saturating_add(options.seeds);
        let (totals, failed) = campaign(profile, seeds, jobs, |totals| progress(options, profile, totals))
            .map_err(|error| anyhow!(error))
            .context("failed to set up a simulated cluster")?;
        end_progress(options);
        let took = clock.now().duration_since(begin).as_secs_f64();
        summary(options.output, profile, &totals, took);
        for (situation, runs) in &totals.situations {
            *situations.entry(*situation).or_default() += runs;
        }
        runs += totals.seeds;
        if let Some(failed) = failed {
            code = ExitCode::FAILURE;
            print_report(options.output, profile, &shrink(profile, failed), options.trace);
        }
    }
    if options.output == Output::Text {
        print::line(format!("number of runs (of {runs}) that contained each situation:"));
        for situation in Situation::ALL {
            print::line(format!("{:>8} {}", situations.get(&situation).copied().unwrap_or_default(), situation.name()));
        }
    }
    Ok(code)
}

fn profiles(name: &str) -> anyhow::Result<Vec<&'static Profile>> {
    if name == "all" {
        return Ok(Profile::ALL.iter().collect());
    }
    let known = || Profile::ALL.iter().map(|profile| profile.name).collect::<Vec<_>>().join(", ");
    let profile = Profile::named(name);
    profile
        .map(|profile| vec![profile])
        .with_context(|| format!("--profile: unknown profile {name:?}; use all, {}", known()))
}

/// Runs one seed.
fn replay(options: &Sim, profiles: &[&'static Profile], seed: u64) -> anyhow::Result<ExitCode> {
    let detail = if options.requests { Detail::Requests } else { Detail::Timeline };
    let mut code = ExitCode::SUCCESS;
    for profile in profiles {
        let report = run_seed(profile, seed, detail).map_err(|error| anyhow!(error))?;
        if report.violation.is_some() {
            code = ExitCode::FAILURE;
        }
        print_report(options.output, profile, &report, options.trace);
    }
    Ok(code)
}

/// Shows the progress on a terminal, in one line that is overwritten.
fn progress(options: &Sim, profile: &Profile, totals: &Totals) {
    let mut stderr = std::io::stderr();
    if options.output == Output::Text && stderr.is_terminal() {
        let _ignored = write!(stderr, "\r{}: {} of {} seeds", profile.name, totals.seeds, options.seeds);
        let _ignored = stderr.flush();
    }
}

fn end_progress(options: &Sim) {
    let mut stderr = std::io::stderr();
    if options.output == Output::Text && stderr.is_terminal() {
        let _ignored = write!(stderr, "\r\x1b[K");
    }
}

fn days(totals: &Totals) -> f64 {
    totals.simulated.as_secs_f64() / 86_400.0
}

fn summary(output: Output, profile: &Profile, totals: &Totals, took: f64) {
    let within = |percent| totals.converged_within(percent).unwrap_or_default().as_secs();
    let Totals { seeds, requests, history_entries, faults, .. } = totals;
    match output {
        Output::Text => print::line(format!(
            "{}: {seeds} seeds in {took:.0} s: {:.1} cluster-days, {requests} requests, {history_entries} actions and faults, {faults} requests \
             affected by a fault; converged after {} s (median), {} s (99 %)",
            profile.name,
            days(totals),
            within(50),
            within(99),
        )),
        Output::Json => print::line(json!({
            "profile": profile.name, "seeds": seeds, "seconds": took, "clusterDays": days(totals), "requests": requests,
            "happenings": history_entries, "faults": faults,
            "situations": situations(totals),
            "convergedSeconds": { "p50": within(50), "p99": within(99) },
        })),
    }
}

/// Returns the number of runs that contained each situation, zeros included.
fn situations(totals: &Totals) -> BTreeMap<&'static str, u64> {
    let runs = |situation| totals.situations.get(&situation).copied().unwrap_or_default();
    Situation::ALL.into_iter().map(|situation| (situation.name(), runs(situation))).collect()
}

fn print_report(output: Output, profile: &Profile, report: &Report, trace: bool) {
    match output {
        Output::Json => print::line(as_json(profile, report)),
        Output::Text => as_text(profile, report, trace),
    }
}

fn as_text(profile: &Profile, report: &Report, trace: bool) {
    let Report { seed, history, violation, record, .. } = report;
    match violation {
        None => print::line(format!("{} seed {seed}: no violation", profile.name)),
        Some(violation) => {
            print::line(format!("{} seed {seed}: {}", profile.name, violation.invariant));
            print::line(format!("  {}", violation.message));
        }
    }
    print::line("actions and faults:");
    for entry in history {
        print::line(format!("  {entry}"));
    }
    let shown = if trace { record.timeline.len() } else { LAST };
    let skipped = record.timeline.len().saturating_sub(shown);
    if violation.is_some() || trace {
        print::line(format!("timeline ({skipped} earlier lines omitted; --seed {seed} --trace shows all):"));
        for line in record.timeline.iter().skip(skipped) {
            print::line(format!("  {line}"));
        }
    }
}

fn as_json(profile: &Profile, report: &Report) -> Value {
    let violation = report.violation.as_ref().map(|violation| {
        let (id, sentence) = (violation.invariant.id(), violation.invariant.sentence());
        json!({ "invariant": id, "sentence": sentence, "what": violation.message, "at": violation.at.to_string() })
    });
    let history: Vec<String> = report.history.iter().map(ToString::to_string).collect();
    json!({
        "profile": profile.name, "seed": report.seed, "violation": violation, "history": history,
        "timeline": report.record.timeline, "requests": report.record.requests,
        "digest": format!("{:016x}", report.record.digest()),
    })
}
