//! Plans a Machine as its controller would now.
//!
//! The planner gets what a controller knows after a start: the objects, and no memory. A driver error recorded in the
//! last operation is used as the last response. Evictions that a PodDisruptionBudget would refuse are refused here, so
//! that the drain names the obstacle.

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
use crate::{Health, Snapshot, Verdict, advice};

/// Returns the verdict for a Machine.
pub(crate) fn verdict(snapshot: &Snapshot, machine: &Arc<Machine>) -> Verdict {
    if let Some(why) = snapshot.cluster().and_then(|cluster| cluster.nodes.refused.as_ref()) {
        return as_written(machine, why);
    }
    let input = PlanInput::of(snapshot, machine);
    let plan = input.plan(&input.vm);
    if let Some(verdict) = look_ahead(&input, &plan) {
        return verdict;
    }
    input.verdict(&plan)
}

/// Plans past the lookup of the VM. The driver is queried before a VM is created, and nearly every new Machine has
/// none. So the verdict also shows what follows if there is no VM.
fn look_ahead(input: &PlanInput<'_>, plan: &Plan) -> Option<Verdict> {
    let asks = plan.steps.iter().any(|step| matches!(step, Step::Driver(Call::Status)));
    if !asks || input.machine.is_deleting() {
        return None;
    }
    let ahead = input.verdict(&input.plan(&VmState::Absent));
    if ahead.health != Health::NeedsAttention {
        let mut verdict = input.verdict(plan);
        verdict.steps.extend(ahead.steps.iter().map(|step| format!("then, if the cloud has no VM: {step}")));
        return Some(verdict);
    }
    let mut verdict = ahead;
    verdict.not_known.push(
        "whether the cloud already has a VM. The driver is queried first; this follows if there is none".to_owned(),
    );
    Some(verdict)
}

fn verdict_of(plan: &Plan, machine: &Machine) -> Verdict {
    let advice = advice::machine(&plan.because, machine);
    let steps = plan.steps.iter().map(ToString::to_string).collect();
    let mut verdict = Verdict::new(advice.health, plan.because.to_string(), steps, plan.wake);
    verdict.then = advice.then.map(str::to_owned);
    verdict.unblock.extend(advice.unblock);
    verdict
}

/// Returns a verdict from the status, if Nodes cannot be read and nothing can be planned.
fn as_written(machine: &Machine, why: &str) -> Verdict {
    let last = &machine.status.last_operation;
    let health = match (machine.phase(), &last.state) {
        (MachinePhase::Running | MachinePhase::Available, _) if !machine.is_deleting() => Health::Healthy,
        (MachinePhase::Failed, _) | (_, OperationState::Failed) => Health::NeedsAttention,
        _ => Health::InProgress,
    };
    let reason = if last.description.is_empty() { "no status yet" } else { &last.description };
    let mut verdict = Verdict::new(health, reason.to_owned(), Vec::new(), planner::Wake::On(planner::Awaited::Change));
    verdict.not_known.push(format!("the Node and the next step: {why}"));
    verdict
}

/// Adds the remedies of a drain and its deadline. The forced drain is the last remedy.
fn drain_advice(snapshot: &Snapshot, machine: &Machine, plan: &Plan, refused: &[Refused], verdict: &mut Verdict) {
    let failed = plan.steps.iter().any(|step| matches!(step, Step::Status(write) if write.last_operation.as_ref().is_some_and(|last| last.state == OperationState::Failed)));
    if failed || !refused.is_empty() || machine.status.last_operation.state == OperationState::Failed {
        verdict.health = Health::NeedsAttention;
    }
    let mut remedies: Vec<String> = refused.iter().map(Refused::help).collect();
    remedies.sort();
    remedies.dedup();
    if remedies.is_empty()
        && let Some(node) = machine.node_name()
    {
        remedies.push(format!(
            "if pods do not terminate, check them: `kubectl get pods --all-namespaces --field-selector spec.nodeName={node}`"
        ));
    }
    verdict.unblock.extend(remedies);
    let limits = Policy::default().drain;
    let node = snapshot.node_of(machine).map(|node| &**node);
    let request = Request::for_deletion(machine, "", node, &limits, &planner::safety::NO_OUTAGES);
    if let Some(since) = request.reference
        && let Ok(at) = since.checked_add(request.timeout)
    {
        let forced = format!(
            "{} the drain is forced: remaining pods are deleted, PodDisruptionBudgets are ignored",
            crate::words::until(at, snapshot.now)
        );
        verdict.then = None;
        verdict.deadline = Some(format!("at {forced}"));
        verdict.unblock.push(format!(
            "last resort, deletes pods and ignores PodDisruptionBudgets: `kubectl label machine {} {}=true`",
            machine.name(),
            api::names::labels::FORCE_DELETION
        ));
    }
}

/// A refused eviction.
struct Refused {
    budgets: Vec<String>,
    misconfigured: bool,
}

impl Refused {
    fn help(&self) -> String {
        match self.budgets.as_slice() {
            [budget] if self.misconfigured => format!(
                "PodDisruptionBudget {budget} never allows an eviction, although all its pods are healthy: raise maxUnavailable, lower \
                 minAvailable, or run more replicas"
            ),
            [budget] => format!("make the pods of PodDisruptionBudget {budget} healthy, or run more replicas"),
            several => {
                format!("keep one PodDisruptionBudget per pod: {} cover the same pod", several.join(" and "))
            }
        }
    }
}

/// Input of the planner.
struct PlanInput<'a> {
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

impl<'a> PlanInput<'a> {
    fn of(snapshot: &'a Snapshot, machine: &'a Machine) -> Self {
        let mut input = Self {
            snapshot,
            machine,
            policy: Policy::default(),
            secret: secret(snapshot, machine),
            vm: last_response(machine),
            drain_view: snapshot.cluster().map_or_else(DrainView::default, |cluster| drain_view(cluster, machine)),
            refused: Vec::new(),
            rivals: rivals(snapshot, machine),
            vm_rivals: vm_rivals(snapshot, machine),
            siblings: siblings(snapshot, machine),
            outages: Outages::NONE,
        };
        input.try_evictions();
        input
    }

    /// Returns the verdict for a plan.
    fn verdict(&self, plan: &Plan) -> Verdict {
        let mut verdict = verdict_of(plan, self.machine);
        if matches!(plan.because, Reason::Draining(_)) {
            drain_advice(self.snapshot, self.machine, plan, &self.refused, &mut verdict);
        }
        verdict.not_known = self.not_known(plan);
        verdict
    }

    /// Plans the Machine for this state of the VM.
    fn plan(&self, vm: &VmState) -> Plan {
        let node = self.snapshot.node_of(self.machine).map(|node| &**node);
        // The list came from the API server, so an absent Node does not exist.
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

    /// Answers the evictions of the plan as the API server would, and records the answers in the drain memory.
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

    /// Returns what could not be determined, as far as it matters for this plan.
    fn not_known(&self, plan: &Plan) -> Vec<String> {
        let mut unknown = Vec::new();
        let class = self.snapshot.classes.look_up(&self.machine.spec.class.name).map(|class| &**class);
        if let Some(why) = &self.snapshot.classes.refused {
            unknown.push(format!("the MachineClass: {why}"));
        }
        if let Presence::Present(class) = class {
            for (namespace, name) in planner::secret::named_by(class) {
                match self.snapshot.secrets.get(&format!("{namespace}/{name}")) {
                    Some(Secret::NotRead(why)) => {
                        unknown.push(format!("the contents of Secret {namespace}/{name}: {why}"));
                    }
                    // A Secret is read only if it is needed.
                    None | Some(Secret::Keys(_) | Secret::Missing) => {}
                }
            }
        }
        unknown.extend(self.known_only_to_the_leader(plan));
        if plan.because != Reason::Converged {
            unknown
                .push("flags of the controllers; default timeouts are assumed where the Machine sets none".to_owned());
        }
        unknown
    }

    /// Returns what is in no object and was not reported by the leader.
    fn known_only_to_the_leader(&self, plan: &Plan) -> Vec<String> {
        let why = match &self.snapshot.process {
            Process::Reported(_) => return Vec::new(),
            Process::Unavailable(why) => format!(": {why}"),
            Process::NotQueried => " (see `/debug/state` of the machine controller)".to_owned(),
        };
        let mut unknown = Vec::new();
        let asks_driver = plan.steps.iter().any(|step| matches!(step, Step::Driver(_)));
        if asks_driver || matches!(plan.because, Reason::CallFailed { .. }) {
            unknown.push(format!("whether a driver call is in progress or queued{why}"));
        }
        if matches!(plan.because, Reason::Draining(_)) {
            unknown.push(format!("which evictions were tried, and when they are retried{why}"));
        }
        unknown
    }
}

/// Returns whether the Secrets of the MachineClass are usable. A Secret that could not be read counts as usable and is
/// reported as unknown.
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
            // Values are never kept; only the keys matter.
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

/// Returns the last response of the driver, as recorded in the last operation.
fn last_response(machine: &Machine) -> VmState {
    let last = &machine.status.last_operation;
    if last.state != OperationState::Failed {
        return VmState::Unknown;
    }
    // The text of MCM for an unreachable driver contains no code.
    let is_unreachable = last.description.starts_with(VM_STATUS_RETRY);
    let coded = CodedText::parse(&last.description).map(|coded| coded.code);
    let coded = if is_unreachable { Some(Code::Unavailable) } else { coded };
    let code = if last.error_code.is_empty() { coded } else { Some(Code::from_name(&last.error_code)) };
    let call = match last.kind {
        OperationType::Create => Call::Create,
        OperationType::Delete if is_unreachable => Call::Status,
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

/// Returns the other Machines with the same Node.
fn rivals(snapshot: &Snapshot, machine: &Machine) -> Vec<Arc<Machine>> {
    let Some(node) = machine.node_name() else { return Vec::new() };
    let others = snapshot.machines_on(node.as_str()).iter().filter(|other| other.uid() != machine.uid());
    others.cloned().collect()
}

/// Returns the other Machines with the same VM.
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
