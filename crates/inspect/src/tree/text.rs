//! Renders the tree as text.

use api::printable::printable;
use jiff::Timestamp;

use super::{DeploymentBranch, MachineLeaf, SetBranch, Tree};
use crate::words::{age, count};
use crate::{Health, Verdict};

/// Whether colours are used. Colours only repeat the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No escape sequences.
    Plain,
    /// Colours of a terminal.
    Ansi,
}

/// Whether healthy Machines are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// They are counted.
    Healthy,
    /// They are listed.
    Nothing,
}

/// Width of a progress bar.
const BAR: i32 = 20;

struct Branch {
    health: Health,
    text: String,
    details: Vec<(&'static str, String)>,
    children: Vec<Branch>,
}

/// Renders the tree. The last line counts the Machines by health.
#[must_use]
pub fn render(tree: &Tree, fold: Fold, paint: Paint) -> String {
    let mut out: Vec<String> = tree
        .remarks
        .iter()
        .map(|remark| format!("{} {}", mark(Health::NeedsAttention, paint), printable(remark)))
        .collect();
    let now = tree.at;
    let deployments = tree.machine_deployments.iter().map(|deployment| of_deployment(deployment, fold, now));
    let sets = tree.machine_sets.iter().map(|set| of_set(set, fold, now));
    let machines = tree.machines.iter().map(|machine| of_machine(machine, now));
    let roots: Vec<Branch> = deployments.chain(sets).chain(machines).collect();
    for root in &roots {
        write(root, "", "", paint, &mut out);
    }
    if roots.is_empty() {
        out.push(format!("No MachineDeployments, MachineSets or Machines in namespace {:?}.", tree.namespace));
    } else {
        let of = |wanted: Health| all_machines(tree).filter(|machine| machine.verdict.health == wanted).count();
        let (healthy, in_progress, attention) =
            (of(Health::Healthy), of(Health::InProgress), of(Health::NeedsAttention) + unreadable(tree));
        let all = count(healthy + in_progress + attention, "machine");
        let need = if attention == 1 { "needs" } else { "need" };
        out.push(format!("\n{all}: {healthy} healthy, {in_progress} in progress, {attention} {need} attention."));
    }
    out.push(String::new());
    out.join("\n")
}

/// Returns the number of Machines that cannot be decoded.
fn unreadable(tree: &Tree) -> usize {
    let sets = tree.machine_deployments.iter().flat_map(|deployment| &deployment.sets).chain(&tree.machine_sets);
    sets.map(|set| set.unreadable.len()).sum()
}

fn all_machines(tree: &Tree) -> impl Iterator<Item = &MachineLeaf> {
    let sets = tree.machine_deployments.iter().flat_map(|deployment| &deployment.sets).chain(&tree.machine_sets);
    sets.flat_map(|set| &set.machines).chain(&tree.machines)
}

fn of_deployment(deployment: &DeploymentBranch, fold: Fold, now: Timestamp) -> Branch {
    let DeploymentBranch { name, replicas, ready, updated, strategy, revision, .. } = deployment;
    let mut parts = vec![format!("{ready}/{replicas} ready"), format!("{updated} up to date"), strategy.clone()];
    if !revision.is_empty() {
        parts.push(format!("revision {revision}"));
    }
    parts.extend(age(deployment.created, now).map(|age| format!("{age} old")));
    let states = [(deployment.paused, "paused"), (deployment.frozen, "FROZEN")];
    parts.extend(states.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned()));
    let text = format!("machinedeployment/{name}  {}", parts.join(", "));
    let mut details = Vec::new();
    if let Some((new, old)) = deployment.rollout() {
        details.push((
            "rollout",
            format!(
                "{} {new} of {replicas} new machines running, {} left",
                bar(new, *replicas),
                count(usize::try_from(old).unwrap_or(0), "old machine")
            ),
        ));
    }
    details.extend(verdict_details(&deployment.verdict, now));
    let shown = |set: &&SetBranch| !set.machines.is_empty() || set.replicas > 0 || set.health() != Health::Healthy;
    let children = deployment.sets.iter().filter(shown).map(|set| of_set(set, fold, now)).collect();
    Branch { health: deployment.health(), text, details, children }
}

fn of_set(set: &SetBranch, fold: Fold, now: Timestamp) -> Branch {
    let SetBranch { name, revision, class, replicas, .. } = set;
    let present = set.machines.len() + set.unreadable.len();
    let mut parts = vec![format!("{present}/{replicas} machines"), format!("class {class}")];
    if !revision.is_empty() {
        parts.push(format!("revision {revision}"));
    }
    let states = [(!set.current, "old"), (set.frozen, "FROZEN")];
    parts.extend(states.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned()));
    let text = format!("machineset/{name}  {}", parts.join(", "));
    let mut children = Vec::new();
    if let (Fold::Healthy, Some(folded)) = (fold, set.folded()) {
        children.push(Branch { health: Health::Healthy, text: folded, details: Vec::new(), children: Vec::new() });
    }
    let shown = |machine: &&MachineLeaf| fold == Fold::Nothing || machine.verdict.health != Health::Healthy;
    children.extend(set.machines.iter().filter(shown).map(|machine| of_machine(machine, now)));
    children.extend(set.unreadable.iter().map(|name| Branch {
        health: Health::NeedsAttention,
        text: format!("machine/{name}  cannot be decoded; it is counted, but not reconciled"),
        details: Vec::new(),
        children: Vec::new(),
    }));
    Branch { health: set.health(), text, details: verdict_details(&set.verdict, now), children }
}

fn of_machine(machine: &MachineLeaf, now: Timestamp) -> Branch {
    let age = machine.phase_age(now).map_or(String::new(), |age| format!(" for {age}"));
    let mut text = format!("machine/{}  {}{age}", machine.name, machine.phase());
    let mut details = verdict_details(&machine.verdict, now);
    if let Some(message) = &machine.last_operation
        && *message != machine.verdict.reason
    {
        details.push(("message", message.clone()));
    }
    if let Some(node) = &machine.node {
        details.push(("node", format!("{} ({})", node.name, node.state)));
    }
    if let Some(vm) = &machine.vm {
        details.push(("vm", vm.clone()));
    }
    if machine.verdict.health == Health::Healthy {
        let node = machine.node.as_ref().map_or(String::new(), |node| format!(", node {} ({})", node.name, node.state));
        let vm = machine.vm.as_ref().map_or(String::new(), |vm| format!(", VM {vm}"));
        text.push_str(&node);
        text.push_str(&vm);
        details.clear();
    }
    Branch { health: machine.verdict.health, text, details, children: Vec::new() }
}

/// Returns the details of a verdict, unless it is healthy.
fn verdict_details(verdict: &Verdict, now: Timestamp) -> Vec<(&'static str, String)> {
    if verdict.health == Health::Healthy {
        return Vec::new();
    }
    let mut details = vec![("reason", verdict.reason.clone())];
    details.extend(verdict.wait(now).map(|wait| ("waiting for", wait)));
    details.extend(verdict.deadline.clone().map(|end| ("deadline", end)));
    if verdict.health == Health::NeedsAttention {
        details.extend(verdict.unblock.first().map(|help| ("fix", help.clone())));
    }
    details
}

fn bar(done: i32, of: i32) -> String {
    let full = if of <= 0 { BAR } else { (done.clamp(0, of) * BAR) / of };
    let cells = |number: i32, cell: &str| cell.repeat(usize::try_from(number).unwrap_or(0));
    format!("[{}{}]", cells(full, "#"), cells(BAR - full, "."))
}

fn mark(health: Health, paint: Paint) -> String {
    let (mark, colour) = match health {
        Health::Healthy => ("✓", "32"),
        Health::InProgress => ("…", "33"),
        Health::NeedsAttention => ("✗", "31"),
    };
    match paint {
        Paint::Plain => mark.to_owned(),
        Paint::Ansi => format!("\x1b[{colour}m{mark}\x1b[0m"),
    }
}

fn write(branch: &Branch, first: &str, rest: &str, paint: Paint, out: &mut Vec<String>) {
    out.push(format!("{first}{} {}", mark(branch.health, paint), printable(&branch.text)));
    let bar = if branch.children.is_empty() { "  " } else { "│ " };
    for (what, text) in &branch.details {
        let what = format!("{what:<13}");
        let what = if paint == Paint::Ansi { format!("\x1b[2m{what}\x1b[0m") } else { what };
        out.push(format!("{rest}{bar}  {what}{}", printable(text)));
    }
    for (index, child) in branch.children.iter().enumerate() {
        let last = index + 1 == branch.children.len();
        let (first, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        write(child, &format!("{rest}{first}"), &format!("{rest}{below}"), paint, out);
    }
}
