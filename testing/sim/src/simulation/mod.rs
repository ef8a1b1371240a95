//! A simulated cluster, driven by a seed.
//!
//! Both components run with all their controllers, clients and watches. The API server, the virtual cloud with its
//! kubelets, the scheduler and the controller manager are simulated in memory. Everything runs on one thread and a
//! paused clock. All random numbers come from the seed, so a seed results in the same requests in every run.
//!
//! A run has three parts. In the first part, the changes and faults of its [`history`] take place. In the second part
//! no faults occur, and the cluster must converge. In the third part the controllers must send no request to the API
//! servers. The [`crate::oracle`] checks every event of all three parts.

mod agents;
mod campaign;
mod connection;
mod converged;
mod draw;
mod environment;
mod faults;
pub mod history;
mod length;
mod objects;
mod operator;
mod process;
mod process_driver;
mod profile;
mod record;
mod shrink;
mod users;
mod versions;

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::Random;
use tokio::time::Instant;

pub use self::campaign::{Totals, campaign};
use self::environment::Environment;
use self::faults::FaultEnd;
use self::history::{EntryKind, HistoryEntry};
pub use self::length::Length;
pub use self::profile::Profile;
pub use self::record::{Detail, Record};
pub use self::shrink::shrink;
use crate::oracle::{FaultScope, Invariant, Situations, Violation};

/// Maximum time until the cluster converges.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_hours(3);
/// Interval of the checks for convergence.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which the cluster must stay converged. The loss of a Node is detected only after a while.
const STABLE_TIME: Duration = Duration::from_mins(3);
/// Time without requests at the end of a history of full length.
const QUIET_TIME: Duration = Duration::from_mins(20);

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    /// Seed of the run.
    pub seed: u64,
    /// Length of the history.
    pub length: Length,
    /// Changes and faults.
    pub history: Vec<HistoryEntry>,
    /// First violation of an invariant.
    pub violation: Option<Violation>,
    /// Simulated time.
    pub simulated: Duration,
    /// Time until the cluster converged; `None` if it did not.
    pub converged: Option<Duration>,
    /// Record of the requests and writes.
    pub record: Record,
    /// Number of requests affected by a fault.
    pub faults: u64,
    /// Situations that occurred.
    pub situations: Situations,
}

/// Runs a seed of a profile.
pub fn run(profile: &Profile, seed: u64, detail: Detail) -> Result<Report, String> {
    run_with(profile, seed, None, None, detail)
}

/// Runs a seed of a profile with this history instead of its own.
pub fn replay(profile: &Profile, seed: u64, history: &[HistoryEntry], detail: Detail) -> Result<Report, String> {
    run_with(profile, seed, None, Some(history.to_vec()), detail)
}

/// Runs a seed. Length and history are drawn from the seed if they are not given.
fn run_with(
    profile: &Profile,
    seed: u64,
    length: Option<Length>,
    history: Option<Vec<HistoryEntry>>,
    detail: Detail,
) -> Result<Report, String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let random = Random::seeded(seed);
        let (drawn, rest) = (random.fork(), random.fork());
        let length = length.unwrap_or_else(|| Length::draw(&random.fork()));
        let pools = draw::pools(profile, &drawn);
        let own = draw::history(profile, length, pools.len(), &drawn);
        let history = history.unwrap_or(own);
        let environment = Environment::new(profile, &pools, &rest, Record::new(detail))?;
        let (pools, began) = (pools.len(), Instant::now());
        let mut run = Run { environment, length, history, pools, began, ends: BTreeMap::new() };
        let converged = run.execute().await?;
        Ok(run.report(seed, converged))
    })
}

struct Run {
    environment: Environment,
    length: Length,
    history: Vec<HistoryEntry>,
    pools: usize,
    began: Instant,
    /// The ends of active faults: when they are due, the index of the fault in the history, and how it ends.
    ends: BTreeMap<(Duration, usize), FaultEnd>,
}

impl Run {
    /// Runs all three parts, or until the first violation. Returns the time until the cluster converged.
    async fn execute(&mut self) -> Result<Option<Duration>, String> {
        self.environment.start()?;
        // Most changes begin after the initial Machines have been created.
        for number in 0..self.history.len() {
            let Some(HistoryEntry { at, kind }) = self.history.get(number).cloned() else { break };
            self.end_faults_until(at).await?;
            if self.wait_until(at).await? {
                return Ok(None);
            }
            self.note(|| format!("* {kind}"));
            match kind {
                EntryKind::Change(change) => self.environment.apply(change).await,
                EntryKind::Fault(fault) => {
                    if fault.scope() == FaultScope::Controllers {
                        let now = self.environment.clock.now();
                        self.environment.observer.update(|oracle| oracle.obstructed(now));
                    }
                    if let Some(end) = self.environment.begin_fault(number, &fault) {
                        self.ends.insert((at + fault.duration(), number), end);
                    }
                }
            }
        }
        self.end_faults_until(Duration::MAX).await?;
        self.environment.resume_pools(self.pools).await;
        self.note(|| "* all changes and faults have ended".to_owned());
        self.converge().await
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.environment.observer.record.lock().note(self.environment.clock.now(), line);
    }

    /// Ends the faults that end before this time.
    async fn end_faults_until(&mut self, at: Duration) -> Result<(), String> {
        while let Some((at, number)) = self.ends.keys().next().copied().filter(|(ends, _)| *ends <= at) {
            if self.wait_until(at).await? {
                return Ok(());
            }
            // The fault stays in `ends` until here, because the oracle must know that it is active.
            let Some(end) = self.ends.remove(&(at, number)) else { break };
            if let Some(ended) = self.history.get(number) {
                self.note(|| format!("* ended: {}", ended.kind));
            }
            if let Some((duration, end)) = self.environment.end_fault(number, end)? {
                self.ends.insert((at + duration, number), end);
            }
        }
        Ok(())
    }

    /// Returns the largest scope of the active faults.
    fn scope(&self) -> FaultScope {
        let of = |number: &usize| match &self.history.get(*number)?.kind {
            EntryKind::Fault(fault) => Some(fault.scope()),
            EntryKind::Change(_) => None,
        };
        self.ends.keys().filter_map(|(_, number)| of(number)).max().unwrap_or(FaultScope::None)
    }

    /// Waits until this time. Returns whether there was a violation before.
    async fn wait_until(&mut self, at: Duration) -> Result<bool, String> {
        let (observer, end) = (self.environment.observer.clone(), self.began + at);
        loop {
            let next = end.min(Instant::now() + Duration::from_mins(1));
            tokio::select! {
                biased;
                () = observer.found.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            let (now, scope) = (self.environment.clock.now(), self.scope());
            let has_panicked = self.environment.processes.iter().any(process::Process::has_panicked);
            observer.update(|oracle| {
                oracle.tick(now, scope);
                if has_panicked {
                    oracle.report(Invariant::NoPanic, "a task or a reconcile panicked".to_owned());
                }
            });
            if observer.oracle.lock().violation().is_some() {
                return Ok(true);
            }
            // A process that has lost its lease has exited and is started again.
            if self.environment.processes.iter().any(process::Process::has_exited) {
                self.environment.start()?;
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }

    /// Waits until the cluster has converged. Then the controllers must send no request for a while.
    async fn converge(&mut self) -> Result<Option<Duration>, String> {
        let begin = Instant::now();
        let mut stable_since: Option<Instant> = None;
        let converged = loop {
            match (self.environment.check_converged(self.pools), stable_since) {
                (Ok(()), None) => stable_since = Some(Instant::now()),
                (Ok(()), Some(since)) if since.elapsed() >= STABLE_TIME => break since - begin,
                (Ok(()), Some(_)) => {}
                (Err(error), _) if begin.elapsed() > CONVERGENCE_TIMEOUT => {
                    self.environment.observer.update(|oracle| oracle.report(error.invariant, error.message));
                    return Ok(None);
                }
                (Err(_), _) => stable_since = None,
            }
            if self.wait_until(self.began.elapsed() + POLL_INTERVAL).await? {
                return Ok(None);
            }
        };
        self.note(|| "* converged; no request is allowed".to_owned());
        let quiet_time = self.length.time(QUIET_TIME);
        match self.requests_within(quiet_time).await? {
            None => return Ok(None),
            Some(0) => {}
            Some(count) => {
                let last = self.environment.observer.record.lock().last_controller_request.clone();
                let minutes = quiet_time.as_secs() / 60;
                let message = format!("{count} requests in {minutes} minutes after convergence, the last one: {last}");
                self.environment.observer.update(|oracle| oracle.report(Invariant::Quiet, message));
                return Ok(None);
            }
        }
        if let Err(error) = self.environment.check_converged(self.pools) {
            self.environment.observer.update(|oracle| oracle.report(error.invariant, error.message));
            return Ok(None);
        }
        Ok(Some(converged))
    }

    /// Returns the number of requests of the controllers in this time, or `None` after a violation.
    async fn requests_within(&mut self, time: Duration) -> Result<Option<u64>, String> {
        let observer = self.environment.observer.clone();
        let count = || observer.record.lock().controller_requests;
        let before = count();
        let is_violated = self.wait_until(self.began.elapsed() + time).await?;
        Ok((!is_violated).then(|| count() - before))
    }

    fn report(mut self, seed: u64, converged: Option<Duration>) -> Report {
        let simulated = self.began.elapsed();
        self.environment.end();
        let observer = &self.environment.observer;
        let record = std::mem::replace(&mut *observer.record.lock(), Record::new(Detail::Numbers));
        let violation = observer.oracle.lock().violation().cloned();
        let situations = observer.oracle.lock().situations().clone();
        let faults = self.environment.server.faults().fired().len() as u64;
        let (length, history) = (self.length, self.history);
        Report { seed, length, history, violation, simulated, converged, record, faults, situations }
    }
}

#[cfg(test)]
mod tests;
