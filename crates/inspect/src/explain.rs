//! Explains the state of one object.

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
use crate::{Health, Snapshot, Verdict, machine, manager};

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
    /// Parses a kind as kubectl does: singular, plural or short name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "machine" | "machines" | "mc" => Self::Machine,
            "machineset" | "machinesets" | "mcs" => Self::MachineSet,
            "machinedeployment" | "machinedeployments" | "mcd" => Self::MachineDeployment,
            _ => return None,
        })
    }

    /// Returns the singular name of the kind.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::MachineSet => "machineset",
            Self::MachineDeployment => "machinedeployment",
        }
    }
}

/// The explanation of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `machine/name`.
    pub object: String,
    /// Namespace.
    pub namespace: String,
    /// When the object was read.
    pub at: Timestamp,
    /// Observed facts.
    pub seen: Vec<String>,
    /// Last operation of the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<String>,
    /// State, next steps and remedies.
    pub verdict: Verdict,
    /// MachineSets and Machines of the object that are not healthy.
    pub below: Vec<String>,
    /// State of the leader process that is in no object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leader: Vec<String>,
}

/// Maximum number of Machines that are listed.
const NAMED: usize = 10;

/// Explains one object. The error is a sentence: the object does not exist.
pub fn of(snapshot: &Snapshot, kind: Explained, name: &str) -> Result<Explanation, String> {
    let missing = || format!("there is no {} {name:?} in namespace {:?}", kind.word(), snapshot.namespace);
    match kind {
        Explained::Machine => match snapshot.machines.look_up(name) {
            Presence::Present(machine) => Ok(of_machine(snapshot, machine)),
            Presence::Undecodable(()) => Ok(unreadable(snapshot, kind, &snapshot.machines.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
        Explained::MachineSet => match snapshot.sets.look_up(name) {
            Presence::Present(set) => Ok(of_set(snapshot, set)),
            Presence::Undecodable(()) => Ok(unreadable(snapshot, kind, &snapshot.sets.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
        Explained::MachineDeployment => match snapshot.deployments.look_up(name) {
            Presence::Present(deployment) => Ok(of_deployment(snapshot, deployment)),
            Presence::Undecodable(()) => Ok(unreadable(snapshot, kind, &snapshot.deployments.unreadable, name)),
            Presence::Absent => Err(missing()),
        },
    }
}

fn unreadable(snapshot: &Snapshot, kind: Explained, objects: &[crate::Unreadable], name: &str) -> Explanation {
    let error =
        objects.iter().find(|object| object.name == name).map(|object| object.error.as_str()).unwrap_or_default();
    let help = format!(
        "fix the field with `kubectl edit {} {name}`. The current CRD rejects its value; the object was stored under another CRD",
        kind.word()
    );
    explanation(
        snapshot,
        kind,
        name,
        vec!["the object exists but cannot be decoded; it is counted, but not reconciled".to_owned()],
        Verdict::needs_attention(format!("failed to decode the object: {error}"), &help),
    )
}

fn explanation(snapshot: &Snapshot, kind: Explained, name: &str, seen: Vec<String>, verdict: Verdict) -> Explanation {
    let mut verdict = match kind {
        Explained::Machine => verdict.led_by(snapshot, Component::MachineController),
        Explained::MachineSet | Explained::MachineDeployment => verdict.led_by(snapshot, Component::Manager),
    };
    if let Process::Unavailable(why) = &snapshot.process
        && !verdict.not_known.iter().any(|unknown| unknown.contains(why.as_str()))
    {
        verdict.not_known.push(format!("driver calls, queues and decisions of the leader: {why}"));
    }
    Explanation {
        object: format!("{}/{name}", kind.word()),
        namespace: snapshot.namespace.clone(),
        at: snapshot.now,
        seen,
        last_operation: None,
        verdict,
        below: Vec::new(),
        leader: snapshot.process.reported().map(|state| state.lines(snapshot, kind, name)).unwrap_or_default(),
    }
}

fn of_machine(snapshot: &Snapshot, seen: &Arc<Machine>) -> Explanation {
    let shown = leaf(snapshot, seen);
    let mut facts = vec![match shown.phase_age(snapshot.now) {
        Some(age) => format!("phase: {} for {age}", shown.phase()),
        None => format!("phase: {}", shown.phase()),
    }];
    if let Some(age) = age(shown.created, snapshot.now) {
        facts.push(format!("created {age} ago"));
    }
    if let Some(deleted) = age(seen.deleted_at(), snapshot.now) {
        facts.push(format!("deletion requested {deleted} ago"));
    }
    let class = &seen.spec.class.name;
    facts.push(match snapshot.classes.look_up(class) {
        Presence::Present(_) => format!("class: {class}"),
        Presence::Undecodable(()) => format!("class: {class} (cannot be decoded)"),
        Presence::Absent if snapshot.classes.refused.is_some() => format!("class: {class} (unknown)"),
        Presence::Absent => format!("class: {class} (does not exist)"),
    });
    facts.push(shown.vm.as_ref().map_or("VM: none recorded yet".to_owned(), |vm| format!("VM: {vm}")));
    facts.push(
        shown.node.as_ref().map_or("node: none".to_owned(), |node| format!("node: {} ({})", node.name, node.state)),
    );
    facts.push(match snapshot.set_of(seen) {
        Some(set) => format!("owner: machineset/{}", set.name()),
        None => "owner: none".to_owned(),
    });
    let last = &seen.status.last_operation;
    let mut explanation =
        explanation(snapshot, Explained::Machine, seen.name(), facts, machine::verdict(snapshot, seen));
    if !last.description.is_empty() {
        let when = age(last.last_update_time.map(api::Time::timestamp), snapshot.now)
            .map_or(String::new(), |age| format!(", {age} ago"));
        explanation.last_operation = Some(format!("{} ({} {}{when})", last.description, last.kind, last.state));
    }
    explanation
}

fn of_set(snapshot: &Snapshot, set: &Arc<MachineSet>) -> Explanation {
    let uid = set.uid();
    let machines: Vec<&Arc<Machine>> = snapshot.machines.of_owner(uid.as_str()).collect();
    let facts = vec![
        format!("{} of {} exist", machines.len(), count(usize::try_from(set.spec.replicas).unwrap_or(0), "machine")),
        format!("class: {}", set.spec.template.spec.class.name),
        match snapshot.deployment_of(set) {
            Some(deployment) => format!("owner: machinedeployment/{}", deployment.name()),
            None => "owner: none".to_owned(),
        },
    ];
    let mut explanation = explanation(snapshot, Explained::MachineSet, set.name(), facts, manager::set(snapshot, set));
    explanation.below = not_healthy(snapshot, machines.into_iter());
    explanation
}

fn of_deployment(snapshot: &Snapshot, deployment: &Arc<MachineDeployment>) -> Explanation {
    let (spec, status) = (&deployment.spec, &deployment.status);
    let mut facts = vec![
        format!(
            "{} desired; {} exist, {} up to date, {} available",
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
    let mut explanation = explanation(snapshot, Explained::MachineDeployment, deployment.name(), facts, verdict);
    let uid = deployment.uid();
    let sets: Vec<&Arc<MachineSet>> = snapshot.sets.of_owner(uid.as_str()).collect();
    for set in &sets {
        let verdict = manager::set(snapshot, set);
        if verdict.health != Health::Healthy {
            explanation.below.push(line("machineset", set.name(), &verdict, snapshot.now));
        }
    }
    let uids: Vec<_> = sets.iter().map(|set| set.uid()).collect();
    let theirs = |machine: &&Arc<Machine>| {
        machine.controller_owner().is_some_and(|owner| uids.iter().any(|uid| *uid == owner.uid.as_str()))
    };
    explanation.below.extend(not_healthy(snapshot, snapshot.machines.readable.iter().filter(theirs)));
    explanation
}

/// Returns a line for each Machine that is not healthy, those that need attention first.
fn not_healthy<'a>(snapshot: &'a Snapshot, machines: impl Iterator<Item = &'a Arc<Machine>>) -> Vec<String> {
    let verdicts = machines.map(|one| (one.name(), machine::verdict(snapshot, one)));
    let mut unhealthy: Vec<_> = verdicts.filter(|(_, verdict)| verdict.health != Health::Healthy).collect();
    unhealthy.sort_by(|(a, one), (b, other)| other.health.cmp(&one.health).then_with(|| a.cmp(b)));
    let more = unhealthy.len().saturating_sub(NAMED);
    let mut lines: Vec<String> =
        unhealthy.iter().take(NAMED).map(|(name, verdict)| line("machine", name, verdict, snapshot.now)).collect();
    if more > 0 {
        lines.push(format!("and {} more; `millwright status` shows all", count(more, "machine")));
    }
    lines
}

fn line(kind: &str, name: &str, verdict: &Verdict, now: Timestamp) -> String {
    let wait = verdict.wait(now).map_or(String::new(), |wait| format!("; waiting for {wait}"));
    format!("{kind}/{name}: {}{wait}", verdict.reason)
}

impl Explanation {
    /// Returns the explanation as text.
    #[must_use]
    pub fn text(&self) -> String {
        let at = self.at.strftime("%Y-%m-%d %H:%M:%S UTC");
        let mut out = vec![format!("{} in namespace {}, {at}", printable(&self.object), printable(&self.namespace))];
        let mut section = |title: &str, lines: &[String]| {
            for (place, line) in lines.iter().enumerate() {
                let title = if place == 0 { title } else { "" };
                out.push(format!("  {title:<16}{}", printable(line)));
            }
        };
        let verdict = &self.verdict;
        section("Observed", &self.seen);
        section("Last operation", self.last_operation.as_slice());
        let health = match verdict.health {
            Health::Healthy => "healthy",
            Health::InProgress => "in progress",
            Health::NeedsAttention => "needs attention",
        };
        section("State", &[format!("{health}: {}", verdict.reason)]);
        let next: Vec<String> =
            if verdict.steps.is_empty() { vec!["nothing".to_owned()] } else { verdict.steps.clone() };
        section("Next", &next);
        if verdict.waits_for.is_none() {
            section("Then", verdict.then.as_slice());
        }
        section("Waiting for", verdict.wait(self.at).as_slice());
        section("Deadline", verdict.deadline.as_slice());
        section("Waiting on", &self.below);
        section("Leader reports", &self.leader);
        section("How to fix", &verdict.unblock);
        section("Unknown", &verdict.not_known);
        out.push(String::new());
        out.join("\n")
    }
}
