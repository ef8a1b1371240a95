//! The machine controller, or its driver, is killed at every call to a cloud.
//!
//! First one machine lives undisturbed behind a proxy that writes down each request. Then, for each of them and for each of two moments
//! (the cloud has not heard of it; the cloud has done it and nobody has heard the answer), another machine lives behind a proxy that holds this very
//! request until a process is killed, and a second process finds the pieces. The process is the machine controller with the driver in it, the driver in
//! a process of its own, or the machine controller whose driver lives on. A cell is green when the machine ran, the cloud ever made one server
//! for it, and nothing is left when it is deleted.

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

/// What the table has to know of a cloud.
pub(in crate::suites) trait Killed: Sync {
    /// The suite that it belongs to.
    const SUITE: &'static str;
    /// What a cell shows, before the kill is named.
    const SENTENCE: &'static str;
    /// Who is killed.
    const VICTIMS: &'static [Victim];

    /// The port of the loopback address behind which the whole cloud is.
    fn port(&self) -> u16;

    /// So many machines live side by side.
    fn lanes(&self) -> usize;

    /// The names of a life's requests, one after the other; none for a request that belongs to no machine, or that comes a different number of times in every life.
    fn names(&self) -> impl FnMut(&Asked) -> Option<String> + Send + 'static;

    /// A namespace with a Secret, the class [`CLASS`] and this Machine, for the cloud behind the proxy at this address.
    fn objects(&self, lane: usize, namespace: &str, address: &str, machine: Value) -> Value;

    /// Fails unless the cloud has exactly what belongs to this machine.
    async fn is_whole(&self, machine: &str) -> anyhow::Result<()>;

    /// Fails if the cloud has anything left of this machine, or ever made two servers for it.
    async fn is_gone(&self, machine: &str) -> anyhow::Result<()>;
}

/// The class of all machines.
pub(in crate::suites) const CLASS: &str = "small";

/// When the process is killed, relative to what a request does at the cloud.
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

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::suites) enum Victim {
    /// The machine controller with the driver in it.
    Both,
    /// The driver in a process of its own.
    Driver,
    /// The machine controller, whose driver lives on.
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

/// A request of a machine's life: what it asks, and how many times that was asked before.
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

/// One kill.
#[derive(Clone, Debug)]
struct Kill {
    place: usize,
    step: Step,
    victim: Victim,
    moment: Moment,
}

/// Whether each kill went well.
type Cells = BTreeMap<(usize, Victim, Moment), bool>;

/// Plays all of it, one machine at a time in each lane, and prints the table.
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
    let (cells, reports) = done.into_inner().map_err(|_| anyhow::anyhow!("a job died"))?;
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

/// The requests of one machine's life, in their order.
async fn undisturbed<Cloud, K: Killed>(setting: &Setting<'_, Cloud>, cloud: &K) -> anyhow::Result<Vec<Step>> {
    let proxy = Proxy::start(cloud.port()).await.context("failed to start a proxy")?;
    let mut life = Life::begin(setting, cloud, Born { lane: 0, name: "model", victim: Victim::Both }, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 0, "nobody was to be killed");
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

/// One machine's life with a kill in it.
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
    let mut life = Life::begin(setting, cloud, Born { lane, name, victim: kill.victim }, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 1, "killed {} times: this request did not come about", life.deaths);
    Ok(())
}

/// How a life begins.
#[derive(Clone, Copy)]
struct Born<'a> {
    lane: usize,
    /// Of the machine and of its namespace.
    name: &'a str,
    victim: Victim,
}

/// A machine, and the processes that look after it one after the other.
struct Life<'a, Cloud, K> {
    setting: &'a Setting<'a, Cloud>,
    cloud: &'a K,
    name: &'a str,
    proxy: &'a Proxy,
    victim: Victim,
    doomed: Option<Process>,
    /// Whoever lives beside the victim, until this value goes.
    _survivor: Option<Process>,
    deaths: usize,
}

impl<'a, Cloud, K: Killed> Life<'a, Cloud, K> {
    fn begin(setting: &'a Setting<'a, Cloud>, cloud: &'a K, born: Born<'a>, proxy: &'a Proxy) -> anyhow::Result<Self> {
        let Born { lane, name, victim } = born;
        setting.test_bed.apply(name, &cloud.objects(lane, name, &proxy.endpoint(), machine(name)))?;
        let log = format!("{name}-beside");
        let survivor = match victim {
            Victim::Both => None,
            Victim::Driver => Some(setting.start_machine_controller(&log, name, name, &[])?),
            Victim::Controller => Some(setting.start_driver(name, &log, &proxy.endpoint())?),
        };
        let mut life = Self { setting, cloud, name, proxy, victim, doomed: None, _survivor: survivor, deaths: 0 };
        life.start()?;
        Ok(life)
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let Self { setting, name, .. } = *self;
        let (log, address) = (format!("{name}-{}", self.deaths), self.proxy.endpoint());
        self.doomed = Some(match self.victim {
            Victim::Both => setting.start_with_driver(&log, name, &address, &[])?,
            Victim::Driver => setting.start_driver(name, &log, &address)?,
            Victim::Controller => setting.start_machine_controller(&log, name, name, &[])?,
        });
        Ok(())
    }

    /// From its creation to nothing left of it.
    async fn lived(&mut self) -> anyhow::Result<()> {
        self.until("it runs", |phase| phase == Some("Running")).await?;
        self.cloud.is_whole(self.name).await?;
        self.setting.kubectl(self.name, &["delete", "machine", self.name, "--wait=false"])?;
        self.until("it is gone", |phase| phase.is_none()).await?;
        self.cloud.is_gone(self.name).await
    }

    async fn until(&mut self, what: &str, holds: impl Fn(Option<&str>) -> bool) -> anyhow::Result<()> {
        self.setting
            .until(what, async || {
                if self.proxy.held() > self.deaths {
                    self.doomed.take().context("nobody is left to be killed")?.kill()?;
                    self.deaths += 1;
                    self.start()?;
                }
                let machines = self.setting.machines(self.name)?;
                let phase = machines.first().map(phase);
                Ok(if holds(phase) { Ok(()) } else { Err(format!("it is {phase:?}")) })
            })
            .await
    }
}

/// A Machine of that class, in a namespace of the same name.
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
    fn requests_are_numbered_by_what_they_ask_and_those_without_a_name_are_left_out() {
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
