//! Kills the machine controller or its driver at every request to a cloud.
//!
//! First, one machine runs without a kill, behind a proxy that records each request. Then, for each request and each of
//! two moments (before the cloud received it; after the cloud processed it, but before the response arrived), another
//! machine runs behind a proxy that holds this request until a process is killed. A second process continues. The
//! killed process is the machine controller with the driver in it, the driver in a separate process, or the machine
//! controller while its driver keeps running. A cell is green if the machine ran, the cloud created exactly one server
//! for it, and nothing is left after its deletion.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use cloud_fakes::proxy::{Asked, Fault, Proxy, Rule};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::setting::{Setting, phase};
use crate::suites::report::Report;
use crate::test_bed::Process;

/// Interface of the kill table to a cloud.
pub(in crate::suites) trait Killed: Sync {
    /// The suite that it belongs to.
    const SUITE: &'static str;
    /// The begin of the case names.
    const SENTENCE: &'static str;
    /// The processes to kill.
    const VICTIMS: &'static [Victim];

    /// Returns the port on loopback that serves all APIs of the cloud.
    fn port(&self) -> u16;

    /// Returns the number of machines that run in parallel.
    fn lanes(&self) -> usize;

    /// Returns a function that names the requests of a machine in order. It returns `None` for requests that do not
    /// belong to a machine, or whose number varies.
    fn names(&self) -> impl FnMut(&Asked) -> Option<String> + Send + 'static;

    /// Returns a namespace with a Secret, the class [`CLASS`] and this Machine, for the cloud behind the proxy at this
    /// address.
    fn objects(&self, lane: usize, namespace: &str, address: &str, machine: Value) -> Value;

    /// Fails unless the cloud has exactly the resources of this machine.
    async fn is_whole(&self, machine: &str) -> anyhow::Result<()>;

    /// Fails if the cloud has any resource of this machine left, or ever created two servers for it.
    async fn is_gone(&self, machine: &str) -> anyhow::Result<()>;
}

/// Name of the MachineClass of all machines.
pub(in crate::suites) const CLASS: &str = "small";

/// When the process is killed, relative to the effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    Before,
    After,
}

impl Moment {
    const BOTH: [Self; 2] = [Self::Before, Self::After];

    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }

    fn fault(self) -> Fault {
        match self {
            Self::Before => Fault::HangBefore,
            Self::After => Fault::HangAfter,
        }
    }
}

/// Process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::suites) enum Victim {
    /// The machine controller with the driver in it.
    Both,
    /// The driver in a separate process.
    Driver,
    /// The machine controller; its driver keeps running.
    Controller,
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Driver => "driver",
            Self::Controller => "controller",
        }
    }
}

/// A request of a machine, and its number among requests with the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    what: String,
    nth: usize,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.what, self.nth)
    }
}

/// A kill.
#[derive(Clone, Debug)]
struct Kill {
    place: usize,
    step: Step,
    victim: Victim,
    moment: Moment,
}

/// Whether each kill succeeded.
type Cells = BTreeMap<(usize, Victim, Moment), bool>;

/// Runs all kills, one machine at a time in each lane, and prints the table.
pub(in crate::suites) fn play<Cloud: Sync, K: Killed>(
    setting: &Setting<'_, Cloud>,
    cloud: &K,
    runtime: &Runtime,
    report: &mut Report,
) -> anyhow::Result<()> {
    let steps = runtime.block_on(undisturbed(setting, cloud))?;
    let mut kills = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        for victim in K::VICTIMS.iter().copied() {
            kills.extend(Moment::BOTH.map(|moment| Kill { place, step: step.clone(), victim, moment }));
        }
    }
    kills.reverse();
    let (waiting, done) = (Mutex::new(kills), Mutex::new((Cells::new(), Vec::new())));
    std::thread::scope(|scope| {
        for lane in 0..cloud.lanes() {
            let (waiting, done) = (&waiting, &done);
            scope.spawn(move || {
                let mut own = Report::of(K::SUITE);
                while let Some(kill) = waiting.lock().ok().and_then(|mut waiting| waiting.pop()) {
                    let Kill { step, victim, moment, .. } = &kill;
                    let sentence = format!("{}: {} killed {} {step}", K::SENTENCE, victim.name(), moment.name());
                    let well = runtime.block_on(own.case(sentence, killed(setting, cloud, lane, &kill))).is_some();
                    if let Ok(mut done) = done.lock() {
                        done.0.insert((kill.place, kill.victim, kill.moment), well);
                    }
                }
                if let Ok(mut done) = done.lock() {
                    done.1.push(own);
                }
            });
        }
    });
    let (cells, reports) = done.into_inner().map_err(|_| anyhow::anyhow!("a job panicked"))?;
    for own in reports {
        report.absorb(own);
    }
    print(K::VICTIMS, &steps, &cells);
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn print(victims: &[Victim], steps: &[Step], cells: &Cells) {
    let columns = || victims.iter().flat_map(|victim| Moment::BOTH.map(|moment| (*victim, moment)));
    let width = 2 + steps.iter().map(|step| step.to_string().len()).max().unwrap_or_default();
    let row = |begin: &str, cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        println!("{begin:<width$}{}", cells.concat());
    };
    println!();
    row("killed …", columns().map(|(victim, _)| victim.name()).collect());
    row("", columns().map(|(_, moment)| moment.name()).collect());
    for (place, step) in steps.iter().enumerate() {
        let cell = |(victim, moment)| match cells.get(&(place, victim, moment)) {
            Some(true) => "green",
            Some(false) => "RED",
            None => "-",
        };
        row(&step.to_string(), columns().map(cell).collect());
    }
    println!();
}

/// Returns the requests of one machine in order.
async fn undisturbed<Cloud, K: Killed>(setting: &Setting<'_, Cloud>, cloud: &K) -> anyhow::Result<Vec<Step>> {
    let proxy = Proxy::start(cloud.port()).await.context("failed to start a proxy")?;
    let mut life = Life::begin(setting, cloud, Parameters { lane: 0, name: "model", victim: Victim::Both }, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 0, "a process was killed unexpectedly");
    Ok(steps(&proxy.asked(), cloud.names()))
}

fn steps(asked: &[Asked], names: impl FnMut(&Asked) -> Option<String>) -> Vec<Step> {
    let mut counts = BTreeMap::<String, usize>::new();
    let steps = asked.iter().filter_map(names).map(|what| {
        let nth = counts.entry(what.clone()).or_default();
        *nth += 1;
        Step { what, nth: *nth }
    });
    steps.collect()
}

/// Runs one machine with a kill.
async fn killed<Cloud, K: Killed>(
    setting: &Setting<'_, Cloud>,
    cloud: &K,
    lane: usize,
    kill: &Kill,
) -> anyhow::Result<()> {
    let proxy = Proxy::start(cloud.port()).await.context("failed to start a proxy")?;
    let (wanted, mut names, mut seen) = (kill.step.clone(), cloud.names(), 0);
    proxy.rule(Rule::next(kill.moment.fault(), move |asked| {
        let is_it = names(asked).is_some_and(|what| what == wanted.what);
        seen += usize::from(is_it);
        is_it && seen == wanted.nth
    }));
    let name = &format!("kill-{}-{}-{}", kill.place, kill.victim.name(), kill.moment.name());
    let mut life = Life::begin(setting, cloud, Parameters { lane, name, victim: kill.victim }, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 1, "killed {} times: this request did not occur", life.deaths);
    Ok(())
}

/// Start parameters of a machine.
#[derive(Clone, Copy)]
struct Parameters<'a> {
    lane: usize,
    /// The name of the machine and of its namespace.
    name: &'a str,
    victim: Victim,
}

/// A machine and the processes that manage it.
struct Life<'a, Cloud, K> {
    setting: &'a Setting<'a, Cloud>,
    cloud: &'a K,
    name: &'a str,
    proxy: &'a Proxy,
    victim: Victim,
    victim_process: Option<Process>,
    /// The process that is not killed; it ends when this value is dropped.
    _survivor: Option<Process>,
    deaths: usize,
}

impl<'a, Cloud, K: Killed> Life<'a, Cloud, K> {
    fn begin(
        setting: &'a Setting<'a, Cloud>,
        cloud: &'a K,
        born: Parameters<'a>,
        proxy: &'a Proxy,
    ) -> anyhow::Result<Self> {
        let Parameters { lane, name, victim } = born;
        setting.test_bed.apply(name, &cloud.objects(lane, name, &proxy.endpoint(), machine(name)))?;
        let log = format!("{name}-beside");
        let survivor = match victim {
            Victim::Both => None,
            Victim::Driver => Some(setting.start_machine_controller(&log, name, name, &[])?),
            Victim::Controller => Some(setting.start_driver(name, &log, &proxy.endpoint())?),
        };
        let mut life =
            Self { setting, cloud, name, proxy, victim, victim_process: None, _survivor: survivor, deaths: 0 };
        life.start()?;
        Ok(life)
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let Self { setting, name, .. } = *self;
        let (log, address) = (format!("{name}-{}", self.deaths), self.proxy.endpoint());
        self.victim_process = Some(match self.victim {
            Victim::Both => setting.start_with_driver(&log, name, &address, &[])?,
            Victim::Driver => setting.start_driver(name, &log, &address)?,
            Victim::Controller => setting.start_machine_controller(&log, name, name, &[])?,
        });
        Ok(())
    }

    /// Runs the machine from its creation to its deletion.
    async fn lived(&mut self) -> anyhow::Result<()> {
        self.until("the machine is running", |phase| phase == Some("Running")).await?;
        self.cloud.is_whole(self.name).await?;
        self.setting.kubectl(self.name, &["delete", "machine", self.name, "--wait=false"])?;
        self.until("the machine is deleted", |phase| phase.is_none()).await?;
        self.cloud.is_gone(self.name).await
    }

    async fn until(&mut self, what: &str, holds: impl Fn(Option<&str>) -> bool) -> anyhow::Result<()> {
        self.setting
            .until(what, async || {
                if self.proxy.held() > self.deaths {
                    self.victim_process.take().context("there is no process to kill")?.kill()?;
                    self.deaths += 1;
                    self.start()?;
                }
                let machines = self.setting.machines(self.name)?;
                let phase = machines.first().map(phase);
                Ok(if holds(phase) { Ok(()) } else { Err(format!("the phase is {phase:?}")) })
            })
            .await
    }
}

/// Returns a Machine of this class in a namespace with the same name.
pub(in crate::suites) fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "namespace": name },
        "spec": { "class": { "kind": "MachineClass", "name": CLASS } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered_per_name_and_unnamed_ones_are_skipped() {
        let asked = ["look", "list", "make", "look"].into_iter().enumerate().map(|(number, path)| Asked {
            method: String::new(),
            path: path.to_owned(),
            body: String::new(),
            number,
        });
        let name = |asked: &Asked| Some(asked.path.clone()).filter(|path| path != "list");
        let steps: Vec<String> = steps(&asked.collect::<Vec<_>>(), name).iter().map(ToString::to_string).collect();
        assert_eq!(steps, ["look #1", "make #1", "look #2"]);
    }
}
