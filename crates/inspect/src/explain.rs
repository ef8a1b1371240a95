//! Why one object stands as it does, at length.

use std::sync::Arc;

use api::printable::printable;
use api::{Machine, MachineDeployment, MachineSet, Object};
use jiff::Timestamp;
use planner::Presence;
use serde::Serialize;

use crate::leader::Component;
use crate::process::Process;
use crate::tree::leaf;
use crate::words::{age, count};
use crate::{Snapshot, Standing, Verdict, machine, manager};

/// The kinds that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Explained {
    /// A Machine.
    Machine,
    /// A MachineSet.
    MachineSet,
    /// A MachineDeployment.
    MachineDeployment,
}

impl Explained {
    /// The kind that kubectl would understand by this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "machine" | "machines" | "mc" => Self::Machine,
            "machineset" | "machinesets" | "mcs" => Self::MachineSet,
            "machinedeployment" | "machinedeployments" | "mcd" => Self::MachineDeployment,
            _ => return None,
        })
    }

    /// Its name in paths and in what people type.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::MachineSet => "machineset",
            Self::MachineDeployment => "machinedeployment",
        }
    }
}

/// What is told of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `machine/name`.
    pub object: String,
    /// Its namespace.
    pub namespace: String,
    /// When it was read.
    pub at: Timestamp,
    /// What the controllers see.
    pub seen: Vec<String>,
    /// What they last wrote about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<String>,
    /// What follows.
    pub verdict: Verdict,
    /// What holds it up below it: sets and machines that are not fine.
    pub below: Vec<String>,
    /// What the leader told of it that is in no object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leader: Vec<String>,
}

/// How many machines below a set or deployment are named.
const NAMED: usize = 10;

/// Explains one object. The error is a sentence: there is no such object.
pub fn of(snapshot: &Snapshot, kind: Explained, name: &str) -> Result<Explanation, String> {
    let missing = || format!("there is no {} {name:?} in namespace {:?}", kind.word(), snapshot.namespace);
    match kind {
        Explained::Machine => match snapshot.machines.look_up(name) {
            Presence::Present(machine) => Ok(of_machine(snapshot, machine)),
            Presence::Undecodable(_) => Ok(unreadable(snapshot, kind, &snapshot.machines.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
        Explained::MachineSet => match snapshot.sets.look_up(name) {
            Presence::Present(set) => Ok(of_set(snapshot, set)),
            Presence::Undecodable(_) => Ok(unreadable(snapshot, kind, &snapshot.sets.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
        Explained::MachineDeployment => match snapshot.deployments.look_up(name) {
            Presence::Present(deployment) => Ok(of_deployment(snapshot, deployment)),
            Presence::Undecodable(_) => Ok(unreadable(snapshot, kind, &snapshot.deployments.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
    }
}

fn unreadable(snapshot: &Snapshot, kind: Explained, objects: &[crate::Unreadable], name: &str) -> Explanation {
    let error =
        objects.iter().find(|object| object.name == name).map(|object| object.error.as_str()).unwrap_or_default();
    let help = format!(
        "mend the field with `kubectl edit {} {name}`: its definition would refuse what it holds, so it was stored under another one",
        kind.word()
    );
    explanation(
        snapshot,
        kind,
        name,
        vec!["it is there and cannot be read, so it is counted and nothing is done to it".to_owned()],
        Verdict::troubled(format!("it cannot be decoded: {error}"), &help),
    )
}

fn explanation(snapshot: &Snapshot, kind: Explained, name: &str, seen: Vec<String>, verdict: Verdict) -> Explanation {
    let mut verdict = match kind {
        Explained::Machine => verdict.led_by(snapshot, Component::MachineController),
        Explained::MachineSet | Explained::MachineDeployment => verdict.led_by(snapshot, Component::Manager),
    };
    if let Process::Silent(why) = &snapshot.process
        && !verdict.not_known.iter().any(|unknown| unknown.contains(why.as_str()))
    {
        verdict.not_known.push(format!("what the leader knows beside the objects: {why}"));
    }
    Explanation {
        object: format!("{}/{name}", kind.word()),
        namespace: snapshot.namespace.clone(),
        at: snapshot.now,
        seen,
        last_operation: None,
        verdict,
        below: Vec::new(),
        leader: snapshot.process.told().map(|told| told.lines(snapshot, kind, name)).unwrap_or_default(),
    }
}

fn of_machine(snapshot: &Snapshot, seen: &Arc<Machine>) -> Explanation {
    let shown = leaf(snapshot, seen);
    let mut facts = vec![match shown.standing_for(snapshot.now) {
        Some(age) => format!("phase: {} for {age}", shown.phase()),
        None => format!("phase: {}", shown.phase()),
    }];
    if let Some(age) = age(shown.created, snapshot.now) {
        facts.push(format!("made {age} ago"));
    }
    if let Some(deleted) = age(seen.deleted_at(), snapshot.now) {
        facts.push(format!("its deletion was asked for {deleted} ago"));
    }
    let class = &seen.spec.class.name;
    facts.push(match snapshot.classes.look_up(class) {
        Presence::Present(_) => format!("class: {class}"),
        Presence::Undecodable(_) => format!("class: {class}, which cannot be read"),
        Presence::Absent if snapshot.classes.refused.is_some() => format!("class: {class} (not known)"),
        Presence::Absent => format!("class: {class}, which does not exist"),
    });
    facts.push(shown.vm.as_ref().map_or("VM: none is written down".to_owned(), |vm| format!("VM: {vm}")));
    facts.push(
        shown.node.as_ref().map_or("node: none".to_owned(), |node| format!("node: {} ({})", node.name, node.state)),
    );
    facts.push(match snapshot.set_of(seen) {
        Some(set) => format!("owner: machineset/{}", set.name()),
        None => "owner: none".to_owned(),
    });
    let last = &seen.status.last_operation;
    let mut told = explanation(snapshot, Explained::Machine, seen.name(), facts, machine::verdict(snapshot, seen));
    if !last.description.is_empty() {
        let when = age(last.last_update_time.map(api::Time::timestamp), snapshot.now)
            .map_or(String::new(), |age| format!(", {age} ago"));
        told.last_operation = Some(format!("{} ({} {}{when})", last.description, last.kind, last.state));
    }
    told
}

fn of_set(snapshot: &Snapshot, set: &Arc<MachineSet>) -> Explanation {
    let uid = set.uid();
    let machines: Vec<&Arc<Machine>> = snapshot.machines.of_owner(uid.as_str()).collect();
    let facts = vec![
        format!(
            "{} of {} wanted are there",
            machines.len(),
            count(usize::try_from(set.spec.replicas).unwrap_or(0), "machine")
        ),
        format!("class: {}", set.spec.template.spec.class.name),
        match snapshot.deployment_of(set) {
            Some(deployment) => format!("owner: machinedeployment/{}", deployment.name()),
            None => "owner: none".to_owned(),
        },
    ];
    let mut told = explanation(snapshot, Explained::MachineSet, set.name(), facts, manager::set(snapshot, set));
    told.below = troubled(snapshot, machines.into_iter());
    told
}

fn of_deployment(snapshot: &Snapshot, deployment: &Arc<MachineDeployment>) -> Explanation {
    let (spec, status) = (&deployment.spec, &deployment.status);
    let mut facts = vec![
        format!(
            "{} wanted; {} there, {} up to date, {} available",
            count(usize::try_from(spec.replicas).unwrap_or(0), "machine"),
            status.replicas,
            status.updated_replicas,
            status.available_replicas
        ),
        format!("strategy: {}", if spec.strategy.kind.is_unset() { "none" } else { spec.strategy.kind.as_str() }),
        format!("class: {}", spec.template.spec.class.name),
    ];
    for condition in &status.conditions {
        facts.push(format!("condition {} is {}: {}", condition.kind, condition.status, condition.message));
    }
    let verdict = manager::deployment(snapshot, deployment);
    let mut told = explanation(snapshot, Explained::MachineDeployment, deployment.name(), facts, verdict);
    let uid = deployment.uid();
    let sets: Vec<&Arc<MachineSet>> = snapshot.sets.of_owner(uid.as_str()).collect();
    for set in &sets {
        let verdict = manager::set(snapshot, set);
        if verdict.standing != Standing::Fine {
            told.below.push(line("machineset", set.name(), &verdict, snapshot.now));
        }
    }
    let uids: Vec<_> = sets.iter().map(|set| set.uid()).collect();
    let theirs = |machine: &&Arc<Machine>| {
        machine.controller_owner().is_some_and(|owner| uids.iter().any(|uid| *uid == owner.uid.as_str()))
    };
    told.below.extend(troubled(snapshot, snapshot.machines.readable.iter().filter(theirs)));
    told
}

/// The machines that are not fine, those that need somebody first.
fn troubled<'a>(snapshot: &'a Snapshot, machines: impl Iterator<Item = &'a Arc<Machine>>) -> Vec<String> {
    let verdicts = machines.map(|one| (one.name(), machine::verdict(snapshot, one)));
    let mut troubled: Vec<_> = verdicts.filter(|(_, verdict)| verdict.standing != Standing::Fine).collect();
    troubled.sort_by(|(a, one), (b, other)| other.standing.cmp(&one.standing).then_with(|| a.cmp(b)));
    let more = troubled.len().saturating_sub(NAMED);
    let mut lines: Vec<String> =
        troubled.iter().take(NAMED).map(|(name, verdict)| line("machine", name, verdict, snapshot.now)).collect();
    if more > 0 {
        lines.push(format!("and {} more; `millwright status` shows all", count(more, "machine")));
    }
    lines
}

fn line(kind: &str, name: &str, verdict: &Verdict, now: Timestamp) -> String {
    let wait = verdict.wait(now).map_or(String::new(), |wait| format!("; waits for {wait}"));
    format!("{kind}/{name}: {}{wait}", verdict.reason)
}

impl Explanation {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let at = self.at.strftime("%Y-%m-%d %H:%M:%S UTC");
        let mut out = vec![format!("{} in namespace {}, {at}", printable(&self.object), printable(&self.namespace))];
        let mut section = |title: &str, lines: &[String]| {
            for (place, line) in lines.iter().enumerate() {
                let title = if place == 0 { title } else { "" };
                out.push(format!("  {title:<13}{}", printable(line)));
            }
        };
        let verdict = &self.verdict;
        section("Seen", &self.seen);
        section("Last written", self.last_operation.as_slice());
        let standing = match verdict.standing {
            Standing::Fine => "fine",
            Standing::Working => "on its way",
            Standing::Troubled => "in trouble",
        };
        section("Stands", &[format!("{standing}: {}", verdict.reason)]);
        let next: Vec<String> =
            if verdict.steps.is_empty() { vec!["nothing now".to_owned()] } else { verdict.steps.clone() };
        section("Next", &next);
        if verdict.waits_for.is_none() {
            section("Then", verdict.then.as_slice());
        }
        section("Waits for", verdict.wait(self.at).as_slice());
        section("In the end", verdict.in_the_end.as_slice());
        section("Held up by", &self.below);
        section("Leader says", &self.leader);
        section("What helps", &verdict.unblock);
        section("Not known", &verdict.not_known);
        out.push(String::new());
        out.join("\n")
    }
}
