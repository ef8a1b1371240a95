//! From decisions and calls to spans.
//!
//! A trace is one part of a machine's existence, creation or deletion, while it lasts. Each decision shows how far the machine has come;
//! when that is further than before, the stage it left becomes a span. Calls to the cloud hang on the stage they were made in, and the
//! trace itself becomes the last span, on which all others hang. What was decided on the way is an event of its stage.
//!
//! A stage is never entered backwards: a creation that fails asks the cloud again before it tries again, and is still being created.
//! Only open stages are kept, so the memory follows the number of machines that come or leave, up to a limit.

use std::collections::BTreeMap;

use api::{Machine, MachinePhase, Object};
use controllers::Decision;
use controllers::decision::{DriverCall, Taught};
use jiff::Timestamp;
use planner::machine::{Call, Stage};
use planner::replacement_limit;
use runtime::Key;

use super::id::{Sampling, SpanId, TraceId, TraceKind};
use super::span::{Attribute, Event, Kind, Span, Status, Value};

/// How many lives are followed at once. Those beyond it are not traced.
const LIVES: usize = 10_000;
/// How many events a stage has room for; a drain of a large node decides often.
const EVENTS: usize = 32;
/// How many calls a stage has room for.
const CALLS: u32 = 64;

/// All lives that are under way.
#[derive(Debug)]
pub(super) struct MachineSpans {
    open: BTreeMap<Key, OpenTrace>,
    sampling: Sampling,
    /// Whatever began before it was begun by somebody else.
    since: Timestamp,
    left_out: u64,
}

#[derive(Debug)]
struct OpenTrace {
    trace: TraceId,
    kind: TraceKind,
    uid: String,
    begun: Timestamp,
    identity: Vec<Attribute>,
    phase: Phase,
}

/// The stage that is open.
#[derive(Debug)]
struct Phase {
    stage: Stage,
    span: SpanId,
    since: Timestamp,
    calls: u32,
    code: Option<String>,
    events: Vec<Event>,
    events_left_out: u32,
}

impl MachineSpans {
    /// Nobody yet.
    pub(super) fn new(sampling: Sampling, since: Timestamp) -> Self {
        // The API server writes whole seconds: what it dates to the second we began in may well have come after us.
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        Self { open: BTreeMap::new(), sampling, since, left_out: 0 }
    }

    /// How many spans were never made, for want of room, since it was last asked.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// A machine was looked at.
    pub(super) fn decided(&mut self, decision: &Decision) -> Vec<Span> {
        let Some(standing) = &decision.standing else { return Vec::new() };
        let (machine, at) = (&standing.machine, standing.at);
        let mut spans = self.close_unless(&decision.key, machine, trace_kind(standing.stage), at);
        let Some(open) = self.follow(&decision.key, machine, standing.stage, at, &mut spans) else { return spans };
        if !decision.did.is_empty() {
            open.phase.tell(Event {
                at,
                name: decision.did.join(", "),
                attributes: vec![
                    ("millwright.reason", decision.because.as_str().into()),
                    ("millwright.outcome", Value::Text(decision.outcome.to_string())),
                ],
            });
        }
        spans
    }

    /// The cloud has answered.
    pub(super) fn called(&mut self, call: &DriverCall) -> Vec<Span> {
        let machine = &call.machine;
        let key = Key::new(machine.namespace(), machine.name());
        // The machine may have been deleted since: the call still belongs to what it was made for.
        let stage = stage_of(call.call, machine.is_deleting());
        let other = self.open.get(&key).is_some_and(|open| Some(open.kind) != trace_kind(stage));
        let mut spans = Vec::new();
        if other {
            return spans;
        }
        let mut left_out = 0;
        if let Some(open) = self.follow(&key, machine, stage, call.asked, &mut spans) {
            if let Some(id) = &call.provider_id {
                open.knows_vm(id);
            }
            match open.child(call) {
                Some(span) => spans.push(span),
                None => left_out = 1,
            }
        }
        self.left_out += left_out;
        spans
    }

    /// A machine is gone.
    pub(super) fn gone(&mut self, key: &Key, at: Timestamp) -> Vec<Span> {
        match self.open.remove(key) {
            None => Vec::new(),
            Some(open) => open.end(at, "gone"),
        }
    }

    /// We stop; somebody else carries on. What is open ends for us, and the lives go on: their last span is told by whoever sees them end.
    pub(super) fn interrupted(&mut self, at: Timestamp) -> Vec<Span> {
        let all = std::mem::take(&mut self.open);
        all.into_values().map(|open| open.phase.end(&open.trace, &open.identity, at, "interrupted")).collect()
    }

    /// Ends the trace that is open under this key, unless it is this machine's and of this kind.
    fn close_unless(&mut self, key: &Key, machine: &Machine, kind: Option<TraceKind>, at: Timestamp) -> Vec<Span> {
        let Some(open) = self.open.get(key) else { return Vec::new() };
        let same = open.uid == machine.uid().as_str();
        if same && kind == Some(open.kind) {
            return Vec::new();
        }
        let outcome = match (same, kind) {
            (true, None) => end_of_creation(machine.phase()),
            (true, Some(_)) => "deleted",
            (false, _) => "gone",
        };
        self.open.remove(key).map(|open| open.end(at, outcome)).unwrap_or_default()
    }

    /// The trace of this machine, moved on to this stage; begun if there is none. None if it is not traced.
    fn follow(
        &mut self,
        key: &Key,
        machine: &Machine,
        stage: Stage,
        at: Timestamp,
        spans: &mut Vec<Span>,
    ) -> Option<&mut OpenTrace> {
        let kind = trace_kind(stage)?;
        if !self.open.contains_key(key) {
            let trace = TraceId::of(machine.uid().as_str(), kind);
            if !self.sampling.takes(trace) {
                return None;
            }
            if self.open.len() >= LIVES {
                self.left_out += 1;
                return None;
            }
            self.open.insert(key.clone(), OpenTrace::begin(machine, trace, kind, stage, at, self.since));
        }
        let open = self.open.get_mut(key).filter(|open| open.uid == machine.uid().as_str())?;
        open.identity = identity(machine, &open.identity);
        if stage > open.phase.stage {
            let next = Phase::begin(open.trace, stage, at.max(open.phase.since));
            let past = std::mem::replace(&mut open.phase, next);
            spans.push(past.end(&open.trace, &open.identity, at, "done"));
        }
        Some(open)
    }
}

impl OpenTrace {
    fn begin(
        machine: &Machine,
        trace: TraceId,
        kind: TraceKind,
        stage: Stage,
        at: Timestamp,
        since: Timestamp,
    ) -> Self {
        let asked = match kind {
            TraceKind::Creation => machine.created_at(),
            TraceKind::Deletion => machine.deleted_at(),
        };
        let begun = asked.unwrap_or(at).min(at);
        // What was asked of an earlier process was begun by it, and its first span tells of that.
        let first = if begun >= since { begun } else { at };
        Self {
            trace,
            kind,
            uid: machine.uid().as_str().to_owned(),
            begun,
            identity: identity(machine, &[]),
            phase: Phase::begin(trace, stage, first),
        }
    }

    fn knows_vm(&mut self, id: &str) {
        if !self.identity.iter().any(|(key, _)| *key == PROVIDER_ID) {
            self.identity.push((PROVIDER_ID, id.into()));
        }
    }

    fn child(&mut self, call: &DriverCall) -> Option<Span> {
        let phase = &mut self.phase;
        phase.calls += 1;
        let code = call.code.to_string();
        phase.code = (call.taught == Taught::Failure).then(|| code.clone());
        if phase.calls > CALLS {
            return None;
        }
        let waited = call.left.duration_since(call.asked).as_millis();
        let mut attributes = self.identity.clone();
        attributes.push((CODE, code.as_str().into()));
        attributes.push(("millwright.limiter.waited_ms", Value::Number(i64::try_from(waited).unwrap_or(i64::MAX))));
        Some(Span {
            trace: self.trace,
            id: self.trace.span(call.call.method(), call.left),
            parent: Some(phase.span),
            name: call.call.method(),
            kind: Kind::Client,
            start: call.left,
            end: call.ended,
            attributes,
            events: Vec::new(),
            events_left_out: 0,
            status: match call.taught {
                Taught::Answer => Status::Ok,
                Taught::Failure => Status::Error(code),
            },
        })
    }

    /// The open stage and the trace itself.
    fn end(self, at: Timestamp, outcome: &'static str) -> Vec<Span> {
        let well = matches!(
            (self.kind, outcome),
            (TraceKind::Creation, "running" | "available") | (TraceKind::Deletion, "gone")
        );
        let last = self.phase.end(&self.trace, &self.identity, at, if well { "done" } else { outcome });
        let mut attributes = self.identity;
        attributes.push((OUTCOME, outcome.into()));
        let root = Span {
            trace: self.trace,
            id: self.trace.root(),
            parent: None,
            name: self.kind.name(),
            kind: Kind::Internal,
            start: self.begun,
            end: at,
            attributes,
            events: Vec::new(),
            events_left_out: 0,
            status: if well { Status::Ok } else { Status::Error(outcome.to_owned()) },
        };
        vec![last, root]
    }
}

impl Phase {
    fn begin(trace: TraceId, stage: Stage, since: Timestamp) -> Self {
        let span = trace.span(stage.name(), since);
        Self { stage, span, since, calls: 0, code: None, events: Vec::new(), events_left_out: 0 }
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() < EVENTS {
            self.events.push(event);
        } else {
            self.events_left_out += 1;
        }
    }

    fn end(self, trace: &TraceId, identity: &[Attribute], at: Timestamp, outcome: &'static str) -> Span {
        let mut attributes = identity.to_vec();
        attributes.push((OUTCOME, outcome.into()));
        attributes.extend(self.code.map(|code| (CODE, Value::Text(code))));
        Span {
            trace: *trace,
            id: self.span,
            parent: Some(trace.root()),
            name: self.stage.name(),
            kind: Kind::Internal,
            start: self.since,
            end: at,
            attributes,
            events: self.events,
            events_left_out: self.events_left_out,
            status: if outcome == "done" { Status::Ok } else { Status::Unset },
        }
    }
}

const OUTCOME: &str = "millwright.outcome";
const CODE: &str = "millwright.code";
const PROVIDER_ID: &str = "millwright.provider_id";

/// Who the machine is. What was known of its VM stays known.
fn identity(machine: &Machine, known: &[Attribute]) -> Vec<Attribute> {
    let mut all = vec![
        ("k8s.namespace.name", machine.namespace().into()),
        ("millwright.machine", machine.name().into()),
        ("millwright.machine.uid", machine.uid().as_str().into()),
        ("millwright.class", machine.spec.class.name.as_str().into()),
    ];
    all.extend(replacement_limit::deployment(machine).map(|deployment| ("millwright.deployment", deployment.into())));
    if machine.spec.provider_id.is_empty() {
        all.extend(known.iter().filter(|(key, _)| *key == PROVIDER_ID).cloned());
    } else {
        all.push((PROVIDER_ID, Value::Text(machine.spec.provider_id.to_string())));
    }
    all
}

fn trace_kind(stage: Stage) -> Option<TraceKind> {
    match stage {
        Stage::Ask | Stage::Create | Stage::Initialize | Stage::Join => Some(TraceKind::Creation),
        Stage::Live => None,
        Stage::Drain | Stage::DeleteVm | Stage::DeleteNode | Stage::LetGo => Some(TraceKind::Deletion),
    }
}

/// The stage that a call belongs to.
fn stage_of(call: Call, leaving: bool) -> Stage {
    match (call, leaving) {
        (Call::Status, false) => Stage::Ask,
        (Call::Create | Call::Delete, false) => Stage::Create,
        (Call::Initialize, false) => Stage::Initialize,
        (Call::Delete, true) => Stage::DeleteVm,
        (Call::Status | Call::Create | Call::Initialize, true) => Stage::Drain,
    }
}

fn end_of_creation(phase: &MachinePhase) -> &'static str {
    match phase {
        MachinePhase::Running => "running",
        MachinePhase::Available => "available",
        MachinePhase::Failed => "failed",
        _ => "ended",
    }
}

#[cfg(test)]
mod tests;
