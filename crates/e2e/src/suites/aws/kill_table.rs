//! The machine controller, or its driver, is killed at every call to EC2.
//!
//! First one machine lives undisturbed behind a proxy that writes down each request. Then, for each of them and for each of two moments
//! (EC2 has not heard of it; EC2 has done it and nobody has heard the answer), another machine lives behind a proxy that holds this very
//! request until a process is killed, and a second process finds the pieces. The process is the machine controller with the driver in it, the driver in
//! a process of its own, or the machine controller whose driver lives on. A cell is green when the machine ran, EC2 ever made one instance
//! for it, and none is left when it is deleted.
//!
//! Machines live side by side, each in a subnet of its own: moto gives the address of an instance that has just ended to the next one, and a
//! machine whose instance comes with the name of a Node that is still there is given up, as it should be.
//!
//! moto does not make a create idempotent by its token, so looking first has to.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use driver_testing::proxy::{Asked, Fault, Proxy, Rule};
use tokio::runtime::Runtime;

use super::Setting;
use super::objects::Place;
use crate::suites::clouds::setting::phase;
use crate::suites::report::Report;
use crate::test_bed::Process;

/// When the process is killed, relative to what a request does at EC2.
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
enum Victim {
    /// The machine controller with the driver in it.
    Both,
    /// The driver in a process of its own.
    Driver,
    /// The machine controller, whose driver lives on.
    Controller,
}

impl Victim {
    const ALL: [Self; 3] = [Self::Both, Self::Driver, Self::Controller];

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

/// Plays all of it, one machine at a time in each subnet, and prints the table.
pub(super) fn play(
    setting: &Setting<'_>,
    runtime: &Runtime,
    moto: u16,
    subnets: &[String],
    report: &mut Report,
) -> anyhow::Result<()> {
    let first = subnets.first().context("there is no subnet")?;
    let steps = runtime.block_on(undisturbed(setting, moto, first))?;
    let mut kills = Vec::new();
    for (place, step) in steps.iter().enumerate() {
        for victim in Victim::ALL {
            kills.extend(Moment::BOTH.map(|moment| Kill { place, step: step.clone(), victim, moment }));
        }
    }
    kills.reverse();
    let (waiting, done) = (Mutex::new(kills), Mutex::new((Cells::new(), Vec::new())));
    std::thread::scope(|scope| {
        for subnet in subnets {
            let (waiting, done) = (&waiting, &done);
            scope.spawn(move || {
                let mut own = Report::of("aws");
                while let Some(kill) = waiting.lock().ok().and_then(|mut waiting| waiting.pop()) {
                    let Kill { step, victim, moment, .. } = &kill;
                    let sentence =
                        format!("one instance, and none left: {} killed {} {step}", victim.name(), moment.name());
                    let well = runtime.block_on(own.case(sentence, killed(setting, moto, subnet, &kill))).is_some();
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
    print(&steps, &cells);
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
fn print(steps: &[Step], cells: &Cells) {
    let columns = || Victim::ALL.into_iter().flat_map(|victim| Moment::BOTH.map(|moment| (victim, moment)));
    let row = |begin: &str, cells: Vec<&str>| {
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>11}")).collect();
        println!("{begin:<38}{}", cells.concat());
    };
    row("\nkilled …", columns().map(|(victim, _)| victim.name()).collect());
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
async fn undisturbed(setting: &Setting<'_>, moto: u16, subnet: &str) -> anyhow::Result<Vec<Step>> {
    let proxy = Proxy::start(moto).await.context("failed to start a proxy")?;
    let mut life = Life::begin(setting, Place { namespace: "model", subnet }, Victim::Both, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 0, "nobody was to be killed");
    let mut counts = BTreeMap::<String, usize>::new();
    let asked = proxy.asked();
    let steps = asked.iter().map(what).filter(|what| what != LIST).map(|what| {
        let nth = counts.entry(what.clone()).or_default();
        *nth += 1;
        Step { what, nth: *nth }
    });
    Ok(steps.collect())
}

/// One machine's life with a kill in it.
async fn killed(setting: &Setting<'_>, moto: u16, subnet: &str, kill: &Kill) -> anyhow::Result<()> {
    let proxy = Proxy::start(moto).await.context("failed to start a proxy")?;
    let (wanted, mut seen) = (kill.step.clone(), 0);
    proxy.rule(Rule::next(kill.moment.fault(), move |asked| {
        seen += usize::from(what(asked) == wanted.what);
        seen == wanted.nth
    }));
    let namespace = format!("kill-{}-{}-{}", kill.place, kill.victim.name(), kill.moment.name());
    let mut life = Life::begin(setting, Place { namespace: &namespace, subnet }, kill.victim, &proxy)?;
    life.lived().await?;
    ensure!(life.deaths == 1, "killed {} times: this request did not come about", life.deaths);
    Ok(())
}

/// The scan for orphans, which has a rhythm of its own.
const LIST: &str = "DescribeInstances (all)";

/// What a request asks.
fn what(asked: &Asked) -> String {
    let (parameters, action) = (asked.parameters(), asked.action());
    if action != "DescribeInstances" {
        return action;
    }
    let named = parameters.list("Filter").iter().any(|filter| filter.get("Name") == Some("tag:Name"));
    match (named, parameters.get("InstanceId.1")) {
        (true, _) => format!("{action} (by name)"),
        (false, Some(_)) => format!("{action} (by id)"),
        (false, None) => LIST.to_owned(),
    }
}

/// A machine, and the processes that look after it one after the other.
struct Life<'a> {
    setting: &'a Setting<'a>,
    namespace: &'a str,
    proxy: &'a Proxy,
    victim: Victim,
    doomed: Option<Process>,
    /// Whoever lives beside the victim, until this value goes.
    _survivor: Option<Process>,
    deaths: usize,
}

const MACHINE: &str = "machine";

impl<'a> Life<'a> {
    fn begin(setting: &'a Setting<'a>, place: Place<'a>, victim: Victim, proxy: &'a Proxy) -> anyhow::Result<Self> {
        let namespace = place.namespace;
        let objects = place.with([place.class("small", "m5.large"), place.machine(MACHINE, "small")]);
        setting.test_bed.apply(namespace, &objects)?;
        let name = format!("{namespace}-beside");
        let survivor = match victim {
            Victim::Both => None,
            Victim::Driver => Some(setting.start_machine_controller(&name, namespace, namespace, &[])?),
            Victim::Controller => Some(setting.start_driver(namespace, &name, &proxy.endpoint())?),
        };
        let mut life = Self { setting, namespace, proxy, victim, doomed: None, _survivor: survivor, deaths: 0 };
        life.start()?;
        Ok(life)
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let Self { setting, namespace, .. } = *self;
        let (name, ec2) = (format!("{namespace}-{}", self.deaths), self.proxy.endpoint());
        self.doomed = Some(match self.victim {
            Victim::Both => setting.start_with_driver(&name, namespace, &ec2, &[])?,
            Victim::Driver => setting.start_driver(namespace, &name, &ec2)?,
            Victim::Controller => setting.start_machine_controller(&name, namespace, namespace, &[])?,
        });
        Ok(())
    }

    /// From its creation to nothing left of it.
    async fn lived(&mut self) -> anyhow::Result<()> {
        self.until("it runs", |phase| phase == Some("Running")).await?;
        ensure!(self.living().await? == 1, "EC2 has {} instances for it", self.living().await?);
        self.setting.kubectl(self.namespace, &["delete", "machine", MACHINE, "--wait=false"])?;
        self.until("it is gone", |phase| phase.is_none()).await?;
        ensure!(self.living().await? == 0, "EC2 still has {} instances", self.living().await?);
        let ever = self.setting.cloud.ever_of(self.namespace).await?.len();
        ensure!(ever == 1, "EC2 made {ever} instances for it");
        Ok(())
    }

    async fn living(&self) -> anyhow::Result<usize> {
        Ok(self.setting.cloud.living_of(self.namespace).await?.len())
    }

    async fn until(&mut self, what: &str, holds: impl Fn(Option<&str>) -> bool) -> anyhow::Result<()> {
        self.setting
            .until(what, async || {
                if self.proxy.held() > self.deaths {
                    self.doomed.take().context("nobody is left to be killed")?.kill()?;
                    self.deaths += 1;
                    self.start()?;
                }
                let machines = self.setting.machines(self.namespace)?;
                let phase = machines.first().map(phase);
                Ok(if holds(phase) { Ok(()) } else { Err(format!("it is {phase:?}")) })
            })
            .await
    }
}
