//! A machine as its controller would see it now.
//!
//! The planner is given what a process that has just started would know: everything in the objects, nothing of its own. Where the last operation
//! tells what a driver answered, that is what it is given as the cloud's last word. Evictions that a budget would refuse are refused here as the
//! API server would refuse them, so that the drain says what keeps it.

use std::sync::Arc;

use api::texts::VM_STATUS_RETRY;
use api::view::{PodDisruptionBudgetView, PodView};
use api::{Code, CodedText, Machine, MachinePhase, Object, OperationState, OperationType, SecretData};
use planner::drain::{Answer, Note, Refusal, Request, Step as DrainStep, Verb, Watched};
use planner::limiter::Capacity;
use planner::machine::{
    Call, DrainView, DriverState, Failure, NodeLookup, Observed, Plan, Reason, Rollout, SecretState, Step, Target,
    VmState,
};
use planner::replacement_limit::{self, Siblings};
use planner::safety::Outages;
use planner::secret::{Content, Reference};
use planner::token::TokenRecord;
use planner::{LookedFor, Policy, Presence};

use crate::process::Process;
use crate::snapshot::{Cluster, Secret};
use crate::{Snapshot, Standing, Verdict, advice};

/// How a machine stands.
pub(crate) fn verdict(snapshot: &Snapshot, machine: &Arc<Machine>) -> Verdict {
    if let Some(why) = snapshot.cluster().and_then(|cluster| cluster.nodes.refused.as_ref()) {
        return as_written(machine, why);
    }
    let inquiry = Inquiry::of(snapshot, machine);
    let plan = inquiry.plan(&inquiry.vm);
    if let Some(verdict) = look_ahead(&inquiry, &plan) {
        return verdict;
    }
    inquiry.told(&plan)
}

/// The cloud is asked before a VM is made. What it answers is not known here; what follows if it has none, as for nearly every machine, is, and
/// may be what the machine really waits for.
fn look_ahead(inquiry: &Inquiry<'_>, plan: &Plan) -> Option<Verdict> {
    let asks = plan.steps.iter().any(|step| matches!(step, Step::Driver(Call::Status)));
    if !asks || inquiry.machine.is_deleting() {
        return None;
    }
    let ahead = inquiry.told(&inquiry.plan(&VmState::Absent));
    if ahead.standing != Standing::Troubled {
        let mut verdict = inquiry.told(plan);
        verdict.steps.extend(ahead.steps.iter().map(|step| format!("then, if the cloud has none: {step}")));
        return Some(verdict);
    }
    let mut verdict = ahead;
    verdict
        .not_known
        .push("whether the cloud has a VM for it already; it is asked first, and this follows if not".to_owned());
    Some(verdict)
}

fn verdict_of(plan: &Plan, machine: &Machine) -> Verdict {
    let advice = advice::machine(&plan.because, machine);
    let steps = plan.steps.iter().map(ToString::to_string).collect();
    let mut verdict = Verdict::new(advice.standing, plan.because.to_string(), steps, plan.wake);
    verdict.then = advice.then.map(str::to_owned);
    verdict.unblock.extend(advice.unblock);
    verdict
}

/// What its status says, where Nodes cannot be read and nothing can be planned.
fn as_written(machine: &Machine, why: &str) -> Verdict {
    let last = &machine.status.last_operation;
    let standing = match (machine.phase(), &last.state) {
        (MachinePhase::Running | MachinePhase::Available, _) if !machine.is_deleting() => Standing::Fine,
        (MachinePhase::Failed, _) | (_, OperationState::Failed) => Standing::Troubled,
        _ => Standing::Working,
    };
    let reason = if last.description.is_empty() { "nothing is written about it yet" } else { &last.description };
    let mut verdict =
        Verdict::new(standing, reason.to_owned(), Vec::new(), planner::Wake::On(planner::Awaited::Change));
    verdict.not_known.push(format!("its node, and so what happens next: {why}"));
    verdict
}

/// What a drain waits for can often be helped, and what cannot ends at its timeout.
fn drain_advice(snapshot: &Snapshot, machine: &Machine, plan: &Plan, refused: &[Refused], verdict: &mut Verdict) {
    let failed = plan.steps.iter().any(|step| matches!(step, Step::Status(write) if write.last_operation.as_ref().is_some_and(|last| last.state == OperationState::Failed)));
    if failed || !refused.is_empty() || machine.status.last_operation.state == OperationState::Failed {
        verdict.standing = Standing::Troubled;
    }
    let mut helped: Vec<String> = refused.iter().map(Refused::help).collect();
    helped.sort();
    helped.dedup();
    verdict.unblock.extend(helped);
    let limits = Policy::default().drain;
    let node = snapshot.node_of(machine).map(|node| &**node);
    let request = Request::for_deletion(machine, "", node, &limits, &planner::safety::NO_OUTAGES);
    if let Some(since) = request.reference
        && let Ok(at) = since.checked_add(request.timeout)
    {
        let forced = format!(
            "{} its drain goes on with force: pods are deleted instead of evicted",
            crate::words::until(at, snapshot.now)
        );
        verdict.then = None;
        verdict.in_the_end = Some(format!("at {forced}"));
        verdict.unblock.push(format!(
            "to force it now: `kubectl label machine {} {}=true`",
            machine.name(),
            api::names::labels::FORCE_DELETION
        ));
    }
}

/// A pod that a budget keeps.
struct Refused {
    budgets: Vec<String>,
    misconfigured: bool,
}

impl Refused {
    fn help(&self) -> String {
        match self.budgets.as_slice() {
            [budget] if self.misconfigured => format!(
                "PodDisruptionBudget {budget} can never allow an eviction though all its pods are healthy: raise maxUnavailable, lower \
                 minAvailable, or run more replicas"
            ),
            [budget] => format!("get the pods of PodDisruptionBudget {budget} healthy, or run more replicas"),
            several => {
                format!("leave one PodDisruptionBudget for each pod: {} cover the same one", several.join(" and "))
            }
        }
    }
}

/// Everything that is handed to the planner, kept alive for it.
struct Inquiry<'a> {
    snapshot: &'a Snapshot,
    machine: &'a Machine,
    policy: Policy,
    secret: SecretState,
    vm: VmState,
    drain_view: DrainView,
    refused: Vec<Refused>,
    rivals: Vec<Arc<Machine>>,
    vm_rivals: Vec<Arc<Machine>>,
    siblings: Siblings,
    outages: Outages,
}

impl<'a> Inquiry<'a> {
    fn of(snapshot: &'a Snapshot, machine: &'a Machine) -> Self {
        let mut inquiry = Self {
            snapshot,
            machine,
            policy: Policy::default(),
            secret: secret(snapshot, machine),
            vm: last_word(machine),
            drain_view: snapshot.cluster().map_or_else(DrainView::default, |cluster| drain_view(cluster, machine)),
            refused: Vec::new(),
            rivals: rivals(snapshot, machine),
            vm_rivals: vm_rivals(snapshot, machine),
            siblings: siblings(snapshot, machine),
            outages: Outages::NONE,
        };
        inquiry.try_evictions();
        inquiry
    }

    /// What a plan of it comes to, for people.
    fn told(&self, plan: &Plan) -> Verdict {
        let mut verdict = verdict_of(plan, self.machine);
        if matches!(plan.because, Reason::Draining(_)) {
            drain_advice(self.snapshot, self.machine, plan, &self.refused, &mut verdict);
        }
        verdict.not_known = self.not_known(plan);
        verdict
    }

    /// What follows if this is what the cloud last said.
    fn plan(&self, vm: &VmState) -> Plan {
        let node = self.snapshot.node_of(self.machine).map(|node| &**node);
        // The list that was read is the API server's own word.
        let lookup = if matches!(node, Presence::Absent) { NodeLookup::Absent } else { NodeLookup::NotRequested };
        let served = DriverState::Served;
        let class = self.snapshot.classes.look_up(&self.machine.spec.class.name).map(|class| &**class);
        planner::machine::plan(&Observed {
            machine: self.machine,
            class,
            driver: &served,
            class_looked_for: if self.snapshot.classes.refused.is_some() { LookedFor::NotYet } else { LookedFor::Yes },
            secret: &self.secret,
            target: match &self.snapshot.target {
                crate::Target::None => Target::None,
                crate::Target::Cluster(_) => {
                    Target::Cluster { node, node_lookup: &lookup, drain_view: &self.drain_view }
                }
            },
            vm,
            call_under_way: self.snapshot.process.call_under_way(self.machine),
            namesake: Presence::Absent,
            siblings: self.siblings,
            capacity: Capacity::Open,
            token: TokenRecord::Gone,
            rivals: &self.rivals,
            vm_rivals: &self.vm_rivals,
            rollout: Rollout::Unknown,
            connectivity: self.snapshot.process.connectivity(),
            outages: &self.outages,
            policy: &self.policy,
            now: self.snapshot.now,
        })
    }

    /// Lets the budgets answer what the API server would answer now, and remembers it as the drain would.
    fn try_evictions(&mut self) {
        let Some(cluster) = self.snapshot.cluster() else { return };
        let (Some(budgets), Watched::Seen(pods)) = (&cluster.budgets, &self.drain_view.pods) else { return };
        let pods = pods.clone();
        for step in self.plan(&self.vm).steps {
            let Step::Drain { notes, requests } = step else { continue };
            self.drain_view.memory.take(notes);
            for request in requests {
                let DrainStep::Evict(id) = request else { continue };
                let Some(pod) = pods.iter().find(|pod| pod.uid() == id.uid) else { continue };
                let covering: Vec<&Arc<PodDisruptionBudgetView>> =
                    budgets.readable.iter().filter(|budget| covers(budget, pod)).collect();
                let answer = match covering.as_slice() {
                    [] => continue,
                    [budget] if budget.status.disruptions_allowed > 0 => continue,
                    [_] => Answer::Refused(Refusal::Budget { retry_after: None }),
                    _ => Answer::Refused(Refusal::SeveralBudgets),
                };
                let named =
                    |budget: &&Arc<PodDisruptionBudgetView>| format!("{}/{}", budget.namespace(), budget.name());
                self.refused.push(Refused {
                    budgets: covering.iter().map(named).collect(),
                    misconfigured: covering.iter().all(|budget| budget.is_misconfigured()),
                });
                self.drain_view.memory.take([Note::Answered {
                    pod: id.uid,
                    verb: Verb::Evict,
                    answer,
                    at: self.snapshot.now,
                }]);
            }
        }
    }

    /// What a process of the controllers knows and an onlooker does not, as far as it matters for this plan.
    fn not_known(&self, plan: &Plan) -> Vec<String> {
        let mut unknown = Vec::new();
        let class = self.snapshot.classes.look_up(&self.machine.spec.class.name).map(|class| &**class);
        if let Some(why) = &self.snapshot.classes.refused {
            unknown.push(format!("its MachineClass: {why}"));
        }
        if let Presence::Present(class) = class {
            for (namespace, name) in planner::secret::named_by(class) {
                match self.snapshot.secrets.get(&format!("{namespace}/{name}")) {
                    Some(Secret::NotRead(why)) => unknown.push(format!("what is in Secret {namespace}/{name}: {why}")),
                    // One that nobody needs is not read.
                    None | Some(Secret::Keys(_) | Secret::Missing) => {}
                }
            }
        }
        unknown.extend(self.only_the_process_knows(plan));
        if plan.because != Reason::Converged {
            unknown.push(
                "the flags of the controllers: where the machine names no timeout, the default of the flag is assumed"
                    .to_owned(),
            );
        }
        unknown
    }

    /// What is in no object, unless the leader has told it.
    fn only_the_process_knows(&self, plan: &Plan) -> Vec<String> {
        let why = match &self.snapshot.process {
            Process::Told(_) => return Vec::new(),
            Process::Silent(why) => format!(": {why}"),
            Process::NotAsked => " (`/debug/state` of the machine controller shows it)".to_owned(),
        };
        let mut unknown = Vec::new();
        let asks_driver = plan.steps.iter().any(|step| matches!(step, Step::Driver(_)));
        if asks_driver || matches!(plan.because, Reason::CallFailed { .. }) {
            unknown.push(format!("whether a driver call is under way, and its place among the calls that wait{why}"));
        }
        if matches!(plan.because, Reason::Draining(_)) {
            unknown.push(format!("which evictions the controller has tried, and when it tries again{why}"));
        }
        unknown
    }
}

/// Whether the Secrets of its class can be used; one that could not be read is taken for usable, and named as not known.
fn secret(snapshot: &Snapshot, machine: &Machine) -> SecretState {
    let Presence::Present(class) = snapshot.classes.look_up(&machine.spec.class.name) else {
        return SecretState::Ready;
    };
    let mut held = Vec::new();
    for (namespace, name) in planner::secret::named_by(class) {
        let key = format!("{namespace}/{name}");
        match snapshot.secrets.get(&key) {
            // The controllers read Secrets of the class's namespace only.
            _ if namespace != class.namespace() => held.push((key, None)),
            None | Some(Secret::NotRead(_)) => return SecretState::Ready,
            Some(Secret::Missing) => held.push((key, None)),
            // The values were never kept. Which keys there are is all that is asked.
            Some(Secret::Keys(keys)) => {
                held.push((key, Some(keys.iter().map(|key| (key.as_str(), "")).collect::<SecretData>())));
            }
        }
    }
    let named: Vec<Reference<'_>> = held
        .iter()
        .map(|(secret, data)| Reference {
            secret: secret.clone(),
            content: data.as_ref().map_or(Content::Missing, Content::Read),
        })
        .collect();
    planner::secret::state(Some(class), &named, machine.name(), snapshot.now)
}

/// What a driver last said of its VM, as far as its last operation tells.
fn last_word(machine: &Machine) -> VmState {
    let last = &machine.status.last_operation;
    if last.state != OperationState::Failed {
        return VmState::Unknown;
    }
    // The reference's text for a driver that is away names no code.
    let is_away = last.description.starts_with(VM_STATUS_RETRY);
    let coded = CodedText::parse(&last.description).map(|coded| coded.code);
    let coded = if is_away { Some(Code::Unavailable) } else { coded };
    let code = if last.error_code.is_empty() { coded } else { Some(Code::from_name(&last.error_code)) };
    let call = match last.kind {
        OperationType::Create => Call::Create,
        OperationType::Delete if is_away => Call::Status,
        OperationType::Delete => Call::Delete,
        _ => return VmState::Unknown,
    };
    match (code, last.last_update_time) {
        (Some(code), Some(at)) => VmState::Failed(Failure {
            call,
            code,
            text: last.description.clone(),
            last_known_state: None,
            at: at.timestamp(),
        }),
        _ => VmState::Unknown,
    }
}

fn drain_view(cluster: &Cluster, machine: &Machine) -> DrainView {
    let pods = machine.node_name().and_then(|node| cluster.pods.get(node.as_str()));
    let seen = |refused: &Option<String>| refused.is_none();
    DrainView {
        pods: match pods {
            None => Watched::NotYet,
            Some(pods) if seen(&pods.refused) => Watched::Seen(pods.readable.clone()),
            Some(_) => Watched::Never,
        },
        unreadable: pods.map(|pods| pods.unreadable.iter().map(|pod| pod.name.clone()).collect()).unwrap_or_default(),
        budgets: match &cluster.budgets {
            None => Watched::NotYet,
            Some(budgets) if seen(&budgets.refused) => Watched::Seen(budgets.readable.clone()),
            Some(_) => Watched::Never,
        },
        attachments: match &cluster.attachments {
            None => Watched::NotYet,
            Some(attachments) if seen(&attachments.refused) => Watched::Seen(attachments.readable.clone()),
            Some(_) => Watched::Never,
        },
        ..DrainView::default()
    }
}

fn covers(budget: &PodDisruptionBudgetView, pod: &PodView) -> bool {
    let selector = budget.spec.selector.as_ref();
    budget.namespace() == pod.namespace()
        && selector.is_some_and(|selector| selector.matches(&pod.metadata.labels).unwrap_or(false))
}

/// The other machines that name the same node.
fn rivals(snapshot: &Snapshot, machine: &Machine) -> Vec<Arc<Machine>> {
    let Some(node) = machine.node_name() else { return Vec::new() };
    let others = snapshot.machines_on(node.as_str()).iter().filter(|other| other.uid() != machine.uid());
    others.cloned().collect()
}

/// The other Machines that name the same VM.
fn vm_rivals(snapshot: &Snapshot, machine: &Machine) -> Vec<Arc<Machine>> {
    let holders = snapshot.machines_with_vm(machine.spec.provider_id.as_str()).iter();
    holders.filter(|other| other.uid() != machine.uid()).cloned().collect()
}

fn siblings(snapshot: &Snapshot, machine: &Machine) -> Siblings {
    match replacement_limit::deployment(machine).filter(|_| replacement_limit::is_candidate(machine)) {
        Some(name) => {
            let of_it = |other: &&Arc<Machine>| replacement_limit::deployment(other) == Some(name);
            Siblings::of(machine, snapshot.machines.readable.iter().filter(of_it).map(|other| &**other))
        }
        None => Siblings::default(),
    }
}
