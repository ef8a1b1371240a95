//! A simulated Node with its pods, PodDisruptionBudgets and disks, an API server that responds immediately, and a clock
//! that the test advances.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::Machine;
use api::view::{NodeView, PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use jiff::Timestamp;
use json_patch::merge;
use serde_json::{Value, json};

use super::super::*;
use meta::time::later;

pub(super) const BEGIN: &str = "2026-01-01T00:00:00Z";

/// The start time plus this many seconds.
pub(super) fn at(seconds: u64) -> Timestamp {
    later(BEGIN.parse().unwrap(), secs(seconds))
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pod of the simulated cluster.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    /// Merged over the default fields.
    pub(super) more: Value,
    /// The grace period, and the time that the pod takes to terminate; `None` is never.
    pub(super) grace: u64,
    pub(super) ends_in: Option<u64>,
    /// The PodDisruptionBudget that covers the pod.
    pub(super) budget: Option<&'static str>,
    pub(super) claims: Vec<String>,
    /// Set by the simulated cluster.
    pub(super) deleted_at: Option<Timestamp>,
    pub(super) granted_grace: u64,
    pub(super) ends_at: Option<Timestamp>,
}

impl Pod {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            more: json!({}),
            grace: 30,
            ends_in: Some(0),
            budget: None,
            claims: Vec::new(),
            deleted_at: None,
            granted_grace: 0,
            ends_at: None,
        }
    }

    pub(super) fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }

    pub(super) fn ending_in(mut self, seconds: Option<u64>) -> Self {
        self.ends_in = seconds;
        self
    }

    pub(super) fn under(mut self, budget: &'static str) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Each claim `c` is bound to volume `pv-c` with disk `disk-c`.
    pub(super) fn claiming<const N: usize>(mut self, claims: [&str; N]) -> Self {
        self.claims = claims.map(str::to_owned).to_vec();
        self
    }

    pub(super) fn uid(&self) -> String {
        format!("uid-{}", self.name)
    }

    fn view(&self) -> PodView {
        let claim = |c: &String| json!({"name": c, "persistentVolumeClaim": {"claimName": c}});
        let labels = self.budget.map_or(json!({}), |budget| json!({"budget": budget}));
        let mut pod = json!({
            "metadata": {"name": self.name, "namespace": "ns", "uid": self.uid(), "labels": labels},
            "spec": {
                "nodeName": "node", "terminationGracePeriodSeconds": self.grace,
                "volumes": self.claims.iter().map(claim).collect::<Vec<_>>(),
            },
            "status": {"phase": "Running"},
        });
        if let Some(at) = self.deleted_at {
            pod["metadata"]["deletionTimestamp"] = json!(later(at, secs(self.granted_grace)).to_string());
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(self.granted_grace);
        }
        merge(&mut pod, &self.more);
        serde_json::from_value(pod).unwrap()
    }
}

/// A PodDisruptionBudget over pods on this Node and elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) healthy: i32,
    pub(super) needed: i32,
    pub(super) expected: i32,
    /// The time that a replacement pod takes to start; `None` is never.
    pub(super) heals_in: Option<u64>,
    heals_at: Vec<Timestamp>,
    version: u64,
}

impl Budget {
    pub(super) fn new(expected: i32, needed: i32, heals_in: Option<u64>) -> Self {
        Self { healthy: expected, needed, expected, heals_in, heals_at: Vec::new(), version: 1 }
    }

    pub(super) fn set_needed(&mut self, needed: i32) {
        self.needed = needed;
        self.version += 1;
    }

    pub(super) fn allowed(&self) -> i32 {
        (self.healthy - self.needed).max(0)
    }

    fn view(&self, name: &str) -> PodDisruptionBudgetView {
        let disrupted: BTreeMap<String, &str> =
            self.heals_at.iter().enumerate().map(|(i, _)| (format!("p{i}"), BEGIN)).collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "generation": 1, "resourceVersion": self.version.to_string()},
            "spec": {"selector": {"matchLabels": {"budget": name}}},
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": self.allowed(), "currentHealthy": self.healthy,
                "desiredHealthy": self.needed, "expectedPods": self.expected, "disruptedPods": disrupted,
            },
        }))
        .unwrap()
    }
}

/// The location of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Here,
    Leaving(Option<Timestamp>),
    Away(Option<Timestamp>),
    There,
}

/// A request and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) at: Timestamp,
    pub(super) what: String,
}

/// A request for a pod as the server received it, whether or not its response arrived.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) at: Timestamp,
    pub(super) pod: Pod,
    pub(super) verb: Verb,
    pub(super) answer: Answer,
}

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) now: Timestamp,
    pub(super) limits: Limits,
    pub(super) machine: Value,
    pub(super) caller: Caller,
    pub(super) node: Option<Value>,
    /// The conditions of the Node.
    pub(super) spec: Value,
    pub(super) pods: Vec<Pod>,
    pub(super) unreadable: Vec<String>,
    pub(super) budgets: BTreeMap<&'static str, Budget>,
    pub(super) disks: BTreeMap<String, Disk>,
    pub(super) foreign: BTreeSet<String>,
    pub(super) detach_in: Option<u64>,
    pub(super) attach_in: Option<u64>,
    pub(super) sees_attachments: bool,
    /// Whether the list is still pending.
    pub(super) hopes_for_attachments: bool,
    pub(super) sees_pods: bool,
    /// The results of the next requests, which have no effect.
    pub(super) faults: Vec<Answer>,
    /// Number of requests that are executed without a response.
    pub(super) lost: usize,
    pub(super) memory: Memory,
    pub(super) history: Vec<Entry>,
    pub(super) served: Vec<Served>,
    /// When each disk was detached.
    pub(super) left: BTreeMap<String, Timestamp>,
    pub(super) last: Option<Advance>,
}

impl Cluster {
    pub(super) fn new(pods: impl IntoIterator<Item = Pod>) -> Self {
        let pods: Vec<Pod> = pods.into_iter().collect();
        let disks = pods.iter().flat_map(|pod| &pod.claims).map(|claim| (claim.clone(), Disk::Here)).collect();
        Self {
            now: BEGIN.parse().unwrap(),
            limits: Limits::default(),
            machine: json!({"metadata": {"name": "m", "deletionTimestamp": BEGIN}}),
            caller: Caller::Deletion,
            node: Some(json!({"conditions": [{"type": "Ready", "status": "True"}]})),
            spec: json!({}),
            pods,
            unreadable: Vec::new(),
            budgets: BTreeMap::new(),
            disks,
            foreign: BTreeSet::new(),
            detach_in: Some(3),
            attach_in: Some(7),
            sees_attachments: true,
            hopes_for_attachments: false,
            sees_pods: true,
            faults: Vec::new(),
            lost: 0,
            memory: Memory::default(),
            history: Vec::new(),
            served: Vec::new(),
            left: BTreeMap::new(),
            last: None,
        }
    }

    pub(super) fn budget(mut self, name: &'static str, budget: Budget) -> Self {
        self.budgets.insert(name, budget);
        self
    }

    pub(super) fn elapsed(&self) -> u64 {
        let begin: Timestamp = BEGIN.parse().unwrap();
        u64::try_from(self.now.duration_since(begin).as_secs()).unwrap()
    }

    /// Plans without executing.
    pub(super) fn plan(&self) -> Advance {
        let machine: Machine = serde_json::from_value(self.machine.clone()).unwrap();
        let node: Option<NodeView> = self.node.as_ref().map(|status| {
            let attached = self.disks.iter().filter(|(_, d)| matches!(d, Disk::Here | Disk::Leaving(_)));
            let attached: Vec<_> =
                attached.map(|(c, _)| json!({"name": format!("kubernetes.io/csi/driver^disk-{c}")})).collect();
            let mut status = status.clone();
            status["volumesAttached"] = json!(attached);
            serde_json::from_value(json!({"metadata": {"name": "node"}, "spec": self.spec, "status": status})).unwrap()
        });
        let pods: Vec<PodView> = self.pods.iter().map(Pod::view).collect();
        let budgets: Vec<PodDisruptionBudgetView> = self.budgets.iter().map(|(n, b)| b.view(n)).collect();
        let attachments: Vec<VolumeAttachmentView> = self.attachments();
        let view = View {
            pods: if self.sees_pods {
                Watched::Seen(Pods { readable: pods.iter().collect(), unreadable: self.unreadable.clone() })
            } else {
                Watched::NotYet
            },
            budgets: Watched::Seen(budgets.iter().collect()),
            attachments: match (self.sees_attachments, self.hopes_for_attachments) {
                (true, _) => Watched::Seen(attachments.iter().collect()),
                (false, true) => Watched::NotYet,
                (false, false) => Watched::Never,
            },
            node: node.as_ref().map_or(Presence::Absent, Presence::Present),
            now: self.now,
        };
        let limits = &self.limits;
        let make = match self.caller {
            Caller::Deletion => Request::for_deletion,
            Caller::InPlaceUpdate => Request::for_in_place,
            Caller::Preservation => Request::for_preservation,
        };
        let request = make(&machine, "node", view.node, limits, &crate::safety::NO_OUTAGES);
        advance(&request, &view, &self.memory)
    }

    fn attachments(&self) -> Vec<VolumeAttachmentView> {
        let attachment = |claim: &str, node: &str, attached: bool, leaving: bool| {
            let deleted = leaving.then_some(BEGIN);
            json!({
                "metadata": {"name": format!("{claim}-{node}"), "uid": format!("{claim}-{node}"), "deletionTimestamp": deleted},
                "spec": {"nodeName": node, "source": {"persistentVolumeName": format!("pv-{claim}")}},
                "status": {"attached": attached},
            })
        };
        let mut all = vec![json!({"metadata": {"name": "inline"}, "spec": {"nodeName": "node", "source": {}}})];
        for (claim, disk) in &self.disks {
            match disk {
                Disk::Here => all.push(attachment(claim, "node", true, false)),
                Disk::Leaving(_) => all.push(attachment(claim, "node", true, true)),
                Disk::Away(_) => all.push(attachment(claim, "other", false, false)),
                Disk::There => all.push(attachment(claim, "other", true, false)),
            }
        }
        all.into_iter().map(|a| serde_json::from_value(a).unwrap()).collect()
    }

    /// One reconcile: plans, records, executes. Returns whether there was anything to do.
    pub(super) fn reconcile(&mut self) -> bool {
        let advance = self.plan();
        self.memory.take(advance.notes.clone());
        for step in &advance.steps {
            self.history.push(Entry { at: self.now, what: step.to_string() });
            self.carry_out(step);
        }
        let busy = advance.steps.iter().any(|step| *step != Step::Watch);
        self.last = Some(advance);
        busy
    }

    fn carry_out(&mut self, step: &Step) {
        let at = self.now;
        match step {
            Step::Watch => {}
            Step::Evict(pod) => self.request(pod, Verb::Evict),
            Step::Delete(pod) => self.request(pod, Verb::Delete),
            Step::FindClaims(claims) => {
                for claim in claims {
                    let known = self.disks.contains_key(&claim.name);
                    let volume = Found::Known(known.then(|| format!("pv-{}", claim.name).into()));
                    self.memory.take([Note::ClaimFound { claim: claim.clone(), volume, at }]);
                }
            }
            Step::FindDisks(volumes) => {
                for volume in volumes {
                    let claim = volume.as_str().trim_start_matches("pv-");
                    let id = (!self.foreign.contains(claim)).then(|| format!("disk-{claim}").into());
                    self.memory.take([Note::DiskFound { volume: volume.clone(), id: Found::Known(id), at }]);
                }
            }
        }
    }

    fn request(&mut self, id: &PodId, verb: Verb) {
        let pod = self.pods.iter().find(|pod| id.uid == *pod.uid()).cloned();
        let answer = self.faults.pop().unwrap_or_else(|| self.serve(id, verb));
        if let Some(pod) = pod {
            self.served.push(Served { at: self.now, pod, verb, answer: answer.clone() });
        }
        if self.lost > 0 {
            self.lost -= 1;
            return;
        }
        self.memory.take([Note::Answered { pod: id.uid.clone(), verb, answer, at: self.now }]);
    }

    fn serve(&mut self, id: &PodId, verb: Verb) -> Answer {
        let now = self.now;
        let Some(pod) = self.pods.iter_mut().find(|pod| id.uid == *pod.uid()) else { return Answer::Gone };
        if verb == Verb::Evict
            && pod.deleted_at.is_none()
            && let Some(budget) = pod.budget.and_then(|name| self.budgets.get_mut(name))
        {
            if budget.allowed() == 0 {
                return Answer::Refused(Refusal::Budget { retry_after: None });
            }
            budget.healthy -= 1;
            budget.version += 1;
            if let Some(heals) = budget.heals_in {
                budget.heals_at.push(later(now, secs(heals)));
            }
        }
        if pod.deleted_at.is_none() || verb == Verb::Delete {
            pod.deleted_at = Some(now);
            pod.granted_grace = if verb == Verb::Delete { 0 } else { pod.grace };
            let after = if verb == Verb::Delete { pod.ends_in.map(|_| 0) } else { pod.ends_in };
            pod.ends_at = after.map(|seconds| later(now, secs(seconds)));
        }
        self.come_about();
        Answer::Accepted
    }

    /// Executes all events that are due.
    pub(super) fn come_about(&mut self) {
        let now = self.now;
        let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        let (ended, left): (Vec<Pod>, Vec<Pod>) = self.pods.drain(..).partition(|pod| due(pod.ends_at));
        self.pods = left;
        for pod in ended {
            for claim in pod.claims {
                if self.pods.iter().all(|other| !other.claims.contains(&claim)) {
                    let at = self.detach_in.map(|s| later(now, secs(s)));
                    self.disks.insert(claim, Disk::Leaving(at));
                }
            }
        }
        for (claim, disk) in &mut self.disks {
            if let Disk::Leaving(at) = disk
                && due(*at)
            {
                self.left.insert(claim.clone(), now);
                *disk = Disk::Away(self.attach_in.map(|s| later(now, secs(s))));
            }
            if let Disk::Away(at) = disk
                && due(*at)
            {
                *disk = Disk::There;
            }
        }
        for budget in self.budgets.values_mut() {
            let before = budget.heals_at.len();
            budget.heals_at.retain(|at| *at > now);
            let healed = before - budget.heals_at.len();
            budget.healthy += i32::try_from(healed).unwrap();
            budget.version += u64::try_from(healed).unwrap();
        }
    }

    /// Returns the time of the next event.
    fn next_event(&self) -> Option<Timestamp> {
        let pods = self.pods.iter().filter_map(|pod| pod.ends_at);
        let disks = self.disks.values().filter_map(|disk| match disk {
            Disk::Leaving(at) | Disk::Away(at) => *at,
            Disk::Here | Disk::There => None,
        });
        let budgets = self.budgets.values().flat_map(|budget| budget.heals_at.iter().copied());
        pods.chain(disks).chain(budgets).filter(|at| *at > self.now).min()
    }

    /// Reconciles until nothing is left to do, then advances the clock to the next event, at most to `limit`.
    pub(super) fn turn(&mut self, limit: Timestamp) {
        for _ in 0..50 {
            if !self.reconcile() {
                break;
            }
        }
        assert!(!self.reconcile(), "it never comes to rest at {}: {:#?}", self.now, self.last);
        let Some(Advance { wake: Wake::By { at: wake, .. }, .. }) = self.last else { return };
        assert!(wake > self.now, "a wait must lie ahead");
        let next = self.next_event().map_or(wake, |event| event.min(wake));
        self.now = next.min(limit);
        self.come_about();
    }

    /// Runs until this second after the start.
    pub(super) fn until(&mut self, second: u64) -> &Outcome {
        let end = at(second);
        while self.now < end {
            let before = self.now;
            self.turn(end);
            if self.now == before {
                self.now = end; // the drain has ended
            }
        }
        self.reconcile();
        &self.last.as_ref().unwrap().outcome
    }

    /// Runs until the drain has ended.
    pub(super) fn drain(&mut self) -> Outcome {
        for _ in 0..5_000 {
            self.reconcile();
            let outcome = &self.last.as_ref().unwrap().outcome;
            if !matches!(outcome, Outcome::InProgress { .. }) {
                return outcome.clone();
            }
            self.turn(at(1_000_000));
        }
        panic!("the drain never ends: {:#?}", self.history);
    }

    pub(super) fn waiting(&self) -> Vec<String> {
        match &self.last.as_ref().unwrap().outcome {
            Outcome::InProgress { waiting, .. } => waiting.iter().map(ToString::to_string).collect(),
            other => panic!("not waiting: {other:?}"),
        }
    }

    pub(super) fn failure(&self) -> Option<&str> {
        match &self.last.as_ref().unwrap().outcome {
            Outcome::InProgress { failure, .. } => failure.as_deref(),
            Outcome::Failed { failure } => Some(failure),
            Outcome::Drained(_) => None,
        }
    }

    /// Returns the requests so far, with the second of each.
    pub(super) fn requests(&self) -> Vec<(u64, &str)> {
        let begin: Timestamp = BEGIN.parse().unwrap();
        let second = |at: Timestamp| u64::try_from(at.duration_since(begin).as_secs()).unwrap();
        let pods = self.history.iter().filter(|entry| entry.what.contains(" pod "));
        pods.map(|entry| (second(entry.at), entry.what.as_str())).collect()
    }
}
