//! A whole cluster, from a seed: what people do, what goes wrong, and what must hold all the time.
//!
//! What is real: both components with all their controllers, clients and watches. What surrounds them is the API server in memory, the
//! virtual cloud with its kubelets, and the simulated scheduler and controller manager. All of it runs on one thread and a paused
//! clock, and all that is left to chance comes from one seed, so a seed is a day that can be lived through again, request by request.
//!
//! A run has three parts. First everything in its [`history`] happens. Then nothing goes wrong any more, and everything has to come to
//! rest as it was asked for. Then nothing may be asked of the API servers. The [`crate::oracle`] judges every event of all three.

mod agents;
mod campaign;
mod draw;
mod environment;
mod faults;
pub mod history;
mod length;
mod line;
mod objects;
mod operator;
mod people;
mod process;
mod process_driver;
mod profile;
mod record;
mod rest;
mod shrink;
mod versions;

use std::collections::BTreeMap;
use std::time::Duration;

use runtime::Random;
use tokio::time::Instant;

pub use self::campaign::{Totals, campaign};
use self::environment::Environment;
use self::faults::End;
use self::history::{Happening, What};
pub use self::length::Length;
pub use self::profile::Profile;
pub use self::record::{Detail, Record};
pub use self::shrink::shrink;
use crate::oracle::{Invariant, Situations, Trouble, Violation};

/// How long everything may take to come to rest.
const PATIENCE: Duration = Duration::from_hours(3);
/// How often somebody looks.
const GLANCE: Duration = Duration::from_secs(10);
/// How long it has to stay so: a node that is lost is missed only after a while.
const SETTLING: Duration = Duration::from_mins(3);
/// How long nothing may be asked then, after a whole history.
const SILENCE: Duration = Duration::from_mins(20);

/// How a run went.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// How long its history was to be.
    pub length: Length,
    /// What happened in it.
    pub history: Vec<Happening>,
    /// What was wrong.
    pub violation: Option<Violation>,
    /// How much time passed in it.
    pub simulated: Duration,
    /// How long it took to come to rest.
    pub converged: Option<Duration>,
    /// What was written down.
    pub record: Record,
    /// How many requests a fault befell.
    pub faults: u64,
    /// The situations that it contained.
    pub situations: Situations,
}

/// Runs a seed of a profile.
pub fn run(profile: &Profile, seed: u64, detail: Detail) -> Result<Report, String> {
    play(profile, seed, None, None, detail)
}

/// Runs a seed of a profile with this history instead of its own.
pub fn replay(profile: &Profile, seed: u64, history: &[Happening], detail: Detail) -> Result<Report, String> {
    play(profile, seed, None, Some(history.to_vec()), detail)
}

/// The length and the history are the seed's where none is said.
fn play(
    profile: &Profile,
    seed: u64,
    length: Option<Length>,
    history: Option<Vec<Happening>>,
    detail: Detail,
) -> Result<Report, String> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let random = Random::seeded(seed);
        let (drawn, rest) = (random.fork(), random.fork());
        let length = length.unwrap_or_else(|| Length::drawn(&random.fork()));
        let pools = draw::pools(profile, &drawn);
        let own = draw::history(profile, length, pools.len(), &drawn);
        let history = history.unwrap_or(own);
        let environment = Environment::set(profile, &pools, &rest, Record::new(detail))?;
        let (pools, began) = (pools.len(), Instant::now());
        let mut run = Run { environment, length, history, pools, began, ends: BTreeMap::new() };
        let converged = run.play().await?;
        Ok(run.report(seed, converged))
    })
}

struct Run {
    environment: Environment,
    length: Length,
    history: Vec<Happening>,
    pools: usize,
    began: Instant,
    /// What ends when, and the number of what it ends.
    ends: BTreeMap<(Duration, usize), End>,
}

impl Run {
    /// Everything, until the first thing that is wrong.
    async fn play(&mut self) -> Result<Option<Duration>, String> {
        self.environment.start()?;
        // People begin when the cluster stands, mostly.
        for number in 0..self.history.len() {
            let Some(Happening { at, what }) = self.history.get(number).cloned() else { break };
            self.end_until(at).await?;
            if self.until(at).await? {
                return Ok(None);
            }
            self.note(|| format!("* {what}"));
            match what {
                What::Act(act) => self.environment.act(act).await,
                What::Fault(fault) => {
                    if fault.trouble() == Trouble::Ours {
                        let now = self.environment.clock.now();
                        self.environment.judged.tell(|oracle| oracle.hindered(now));
                    }
                    if let Some(end) = self.environment.begin(number, &fault) {
                        self.ends.insert((at + fault.lasts(), number), end);
                    }
                }
            }
        }
        self.end_until(Duration::MAX).await?;
        self.environment.tidy_up(self.pools).await;
        self.note(|| "* from here on nothing goes wrong".to_owned());
        self.settle().await
    }

    fn note(&self, what: impl FnOnce() -> String) {
        self.environment.judged.record.lock().note(self.environment.clock.now(), what);
    }

    /// Ends what has to end until then.
    async fn end_until(&mut self, at: Duration) -> Result<(), String> {
        while let Some((at, number)) = self.ends.keys().next().copied().filter(|(ends, _)| *ends <= at) {
            if self.until(at).await? {
                return Ok(());
            }
            // Not before: until then something goes wrong, and whoever judges has to know.
            let Some(end) = self.ends.remove(&(at, number)) else { break };
            if let Some(ended) = self.history.get(number) {
                self.note(|| format!("* over: {}", ended.what));
            }
            if let Some((lasts, end)) = self.environment.finish(number, end)? {
                self.ends.insert((at + lasts, number), end);
            }
        }
        Ok(())
    }

    /// The worst of what goes on.
    fn trouble(&self) -> Trouble {
        let of = |number: &usize| match &self.history.get(*number)?.what {
            What::Fault(fault) => Some(fault.trouble()),
            What::Act(_) => None,
        };
        self.ends.keys().filter_map(|(_, number)| of(number)).max().unwrap_or(Trouble::Nothing)
    }

    /// Waits until then; whether something was wrong before.
    async fn until(&mut self, at: Duration) -> Result<bool, String> {
        let (judged, end) = (self.environment.judged.clone(), self.began + at);
        loop {
            let next = end.min(Instant::now() + Duration::from_mins(1));
            tokio::select! {
                biased;
                () = judged.found.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            let (now, trouble) = (self.environment.clock.now(), self.trouble());
            let broken = self.environment.processes.iter().any(process::Process::is_broken);
            judged.tell(|oracle| {
                oracle.tick(now, trouble);
                if broken {
                    oracle.blame(Invariant::Alive, "a task or a reconcile has ended by a panic".to_owned());
                }
            });
            if judged.oracle.lock().violation().is_some() {
                return Ok(true);
            }
            // Whoever has lost a lease has ended, and is started again.
            if self.environment.processes.iter().any(process::Process::is_over) {
                self.environment.start()?;
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }

    /// Waits until everything is as it was asked for, and then for a while in which nothing may be asked.
    async fn settle(&mut self) -> Result<Option<Duration>, String> {
        let begin = Instant::now();
        let mut rested: Option<Instant> = None;
        let converged = loop {
            match (self.environment.unrest(self.pools), rested) {
                (Ok(()), None) => rested = Some(Instant::now()),
                (Ok(()), Some(since)) if since.elapsed() >= SETTLING => break since - begin,
                (Ok(()), Some(_)) => {}
                (Err(unrest), _) if begin.elapsed() > PATIENCE => {
                    self.environment.judged.tell(|oracle| oracle.blame(unrest.invariant, unrest.what));
                    return Ok(None);
                }
                (Err(_), _) => rested = None,
            }
            if self.until(self.began.elapsed() + GLANCE).await? {
                return Ok(None);
            }
        };
        self.note(|| "* from here on nothing may be asked".to_owned());
        let silence = self.length.time(SILENCE);
        match self.asked_within(silence).await? {
            None => return Ok(None),
            Some(0) => {}
            Some(asked) => {
                let last = self.environment.judged.record.lock().last_of_ours.clone();
                let minutes = silence.as_secs() / 60;
                let what = format!("{asked} requests in {minutes} minutes, the last of them: {last}");
                self.environment.judged.tell(|oracle| oracle.blame(Invariant::Quiet, what));
                return Ok(None);
            }
        }
        if let Err(unrest) = self.environment.unrest(self.pools) {
            self.environment.judged.tell(|oracle| oracle.blame(unrest.invariant, unrest.what));
            return Ok(None);
        }
        Ok(Some(converged))
    }

    /// How many requests of ours there are in a time, unless something was wrong in it.
    async fn asked_within(&mut self, time: Duration) -> Result<Option<u64>, String> {
        let judged = self.environment.judged.clone();
        let ours = || judged.record.lock().ours;
        let before = ours();
        let is_wrong = self.until(self.began.elapsed() + time).await?;
        Ok((!is_wrong).then(|| ours() - before))
    }

    fn report(mut self, seed: u64, converged: Option<Duration>) -> Report {
        let simulated = self.began.elapsed();
        self.environment.end();
        let judged = &self.environment.judged;
        let record = std::mem::replace(&mut *judged.record.lock(), Record::new(Detail::Numbers));
        let violation = judged.oracle.lock().violation().cloned();
        let situations = judged.oracle.lock().situations().clone();
        let faults = self.environment.server.faults().fired().len() as u64;
        let (length, history) = (self.length, self.history);
        Report { seed, length, history, violation, simulated, converged, record, faults, situations }
    }
}

#[cfg(test)]
mod tests;
