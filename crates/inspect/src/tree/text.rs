//! The tree as text.

use api::printable::printable;
use jiff::Timestamp;

use super::{DeploymentBranch, MachineLeaf, SetBranch, Tree};
use crate::words::{age, count};
use crate::{Standing, Verdict};

/// Whether colours may be used. They repeat what a mark says already: nothing is told by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// No escape sequences.
    Plain,
    /// Colours of a terminal.
    Ansi,
}

/// Whether machines that need nobody are shown one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// They are counted.
    Fine,
    /// They are shown.
    Nothing,
}

/// How many cells a progress bar has.
const BAR: i32 = 20;

struct Branch {
    standing: Standing,
    text: String,
    details: Vec<(&'static str, String)>,
    children: Vec<Branch>,
}

/// The tree, for people. Ends with a line that counts what needs somebody.
#[must_use]
pub fn render(tree: &Tree, fold: Fold, paint: Paint) -> String {
    let mut out: Vec<String> = tree
        .remarks
        .iter()
        .map(|remark| format!("{} {}", mark(Standing::Troubled, paint), printable(remark)))
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
        out.push(format!("No machine deployments, sets or machines in namespace {:?}.", tree.namespace));
    } else {
        let of = |wanted: Standing| all_machines(tree).filter(|machine| machine.verdict.standing == wanted).count();
        let (fine, working, troubled) =
            (of(Standing::Fine), of(Standing::Working), of(Standing::Troubled) + unreadable(tree));
        let all = count(fine + working + troubled, "machine");
        out.push(format!("\n{all}: {fine} fine, {working} on their way, {troubled} in trouble."));
    }
    out.push(String::new());
    out.join("\n")
}

/// Machines that cannot be read, of all sets.
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
    if let Some((new, old)) = deployment.roll_out() {
        details.push((
            "rollout",
            format!(
                "{} {new} of {replicas} new run, {} left",
                bar(new, *replicas),
                count(usize::try_from(old).unwrap_or(0), "old machine")
            ),
        ));
    }
    details.extend(told(&deployment.verdict, now));
    let shown = |set: &&SetBranch| !set.machines.is_empty() || set.replicas > 0 || set.standing() != Standing::Fine;
    let children = deployment.sets.iter().filter(shown).map(|set| of_set(set, fold, now)).collect();
    Branch { standing: deployment.standing(), text, details, children }
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
    if let (Fold::Fine, Some(folded)) = (fold, set.folded()) {
        children.push(Branch { standing: Standing::Fine, text: folded, details: Vec::new(), children: Vec::new() });
    }
    let shown = |machine: &&MachineLeaf| fold == Fold::Nothing || machine.verdict.standing != Standing::Fine;
    children.extend(set.machines.iter().filter(shown).map(|machine| of_machine(machine, now)));
    children.extend(set.unreadable.iter().map(|name| Branch {
        standing: Standing::Troubled,
        text: format!("machine/{name}  cannot be read; it is counted and nothing is done to it"),
        details: Vec::new(),
        children: Vec::new(),
    }));
    Branch { standing: set.standing(), text, details: told(&set.verdict, now), children }
}

fn of_machine(machine: &MachineLeaf, now: Timestamp) -> Branch {
    let age = machine.standing_for(now).map_or(String::new(), |age| format!(" for {age}"));
    let mut text = format!("machine/{}  {}{age}", machine.name, machine.phase());
    let mut details = told(&machine.verdict, now);
    if let Some(said) = &machine.last_operation
        && *said != machine.verdict.reason
    {
        details.push(("said", said.clone()));
    }
    if let Some(node) = &machine.node {
        details.push(("node", format!("{} ({})", node.name, node.state)));
    }
    if let Some(vm) = &machine.vm {
        details.push(("vm", vm.clone()));
    }
    if machine.verdict.standing == Standing::Fine {
        let node = machine.node.as_ref().map_or(String::new(), |node| format!(", node {} ({})", node.name, node.state));
        let vm = machine.vm.as_ref().map_or(String::new(), |vm| format!(", VM {vm}"));
        text.push_str(&node);
        text.push_str(&vm);
        details.clear();
    }
    Branch { standing: machine.verdict.standing, text, details, children: Vec::new() }
}

/// What a planner says, unless all is well.
fn told(verdict: &Verdict, now: Timestamp) -> Vec<(&'static str, String)> {
    if verdict.standing == Standing::Fine {
        return Vec::new();
    }
    let mut details = vec![("why", verdict.reason.clone())];
    details.extend(verdict.wait(now).map(|wait| ("waits", wait)));
    details.extend(verdict.in_the_end.clone().map(|end| ("ends", end)));
    if verdict.standing == Standing::Troubled {
        details.extend(verdict.unblock.first().map(|help| ("help", help.clone())));
    }
    details
}

fn bar(done: i32, of: i32) -> String {
    let full = if of <= 0 { BAR } else { (done.clamp(0, of) * BAR) / of };
    let cells = |number: i32, cell: &str| cell.repeat(usize::try_from(number).unwrap_or(0));
    format!("[{}{}]", cells(full, "#"), cells(BAR - full, "."))
}

fn mark(standing: Standing, paint: Paint) -> String {
    let (mark, colour) = match standing {
        Standing::Fine => ("✓", "32"),
        Standing::Working => ("…", "33"),
        Standing::Troubled => ("✗", "31"),
    };
    match paint {
        Paint::Plain => mark.to_owned(),
        Paint::Ansi => format!("\x1b[{colour}m{mark}\x1b[0m"),
    }
}

fn write(branch: &Branch, first: &str, rest: &str, paint: Paint, out: &mut Vec<String>) {
    out.push(format!("{first}{} {}", mark(branch.standing, paint), printable(&branch.text)));
    let bar = if branch.children.is_empty() { "  " } else { "│ " };
    for (what, text) in &branch.details {
        let what = format!("{what:<8}");
        let what = if paint == Paint::Ansi { format!("\x1b[2m{what}\x1b[0m") } else { what };
        out.push(format!("{rest}{bar}  {what}{}", printable(text)));
    }
    for (place, child) in branch.children.iter().enumerate() {
        let last = place + 1 == branch.children.len();
        let (first, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        write(child, &format!("{rest}{first}"), &format!("{rest}{below}"), paint, out);
    }
}
