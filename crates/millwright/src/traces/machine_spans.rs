//! Turns decisions and driver calls into spans.
//!
//! A trace covers the creation or the deletion of a Machine. Each decision contains the stage of the Machine. When the
//! stage advances, the previous stage becomes a span. Driver calls are children of the stage in which they were made,
//! and stages are children of the root span, which is created last. Decisions are events of their stage.
//!
//! Stages never go backwards: a failed creation queries the driver again before the retry, and is still in the stage
//! create. Only open stages are kept, so the memory follows the number of Machines that are being created or deleted,
//! up to a limit.

use std::collections::BTreeMap;

use api::{Machine, MachinePhase, Object};
use controllers::Decision;
use controllers::decision::{DriverCall, DriverCallResult};
use jiff::Timestamp;
use planner::machine::{Call, Stage};
use planner::replacement_limit;
use runtime::Key;

use super::id::{Sampling, SpanId, TraceId, TraceKind};
use super::span::{Attribute, Event, Kind, Span, Status, Value};

/// Maximum number of open traces. Further Machines are not traced.
const MAX_TRACES: usize = 10_000;
/// Maximum number of events per stage. A drain of a large Node has many decisions.
const MAX_EVENTS: usize = 32;
/// Maximum number of calls per stage.
const MAX_CALLS: u32 = 64;

/// All open traces.
#[derive(Debug)]
pub(super) struct MachineSpans {
    open: BTreeMap<Key, OpenTrace>,
    sampling: Sampling,
    /// Start of this process. What started earlier was started by another process.
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

/// The open stage.
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
    /// Creates an empty collection.
    pub(super) fn new(sampling: Sampling, since: Timestamp) -> Self {
        // The API server truncates times to seconds, so an object with the start second of this process may be newer
        // than the process.
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        Self { open: BTreeMap::new(), sampling, since, left_out: 0 }
    }

    /// Returns the number of spans that were dropped because of limits since the last call.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Processes a decision about a Machine.
    pub(super) fn decided(&mut self, decision: &Decision) -> Vec<Span> {
        let Some(standing) = &decision.machine else { return Vec::new() };
        let (machine, at) = (&standing.machine, standing.at);
        let mut spans = self.close_unless(&decision.key, machine, trace_kind(standing.stage), at);
        let Some(open) = self.follow(&decision.key, machine, standing.stage, at, &mut spans) else { return spans };
        if !decision.steps.is_empty() {
            open.phase.add_event(Event {
                at,
                name: decision.steps.join(", "),
                attributes: vec![
                    ("millwright.reason", decision.because.as_str().into()),
                    ("millwright.outcome", Value::Text(decision.outcome.to_string())),
                ],
            });
        }
        spans
    }

    /// Processes the result of a driver call.
    pub(super) fn called(&mut self, call: &DriverCall) -> Vec<Span> {
        let machine = &call.machine;
        let key = Key::new(machine.namespace(), machine.name());
        // The Machine may have been deleted since. The call still belongs to the earlier trace.
        let stage = stage_of(call.call, machine.is_deleting());
        let other = self.open.get(&key).is_some_and(|open| Some(open.kind) != trace_kind(stage));
        let mut spans = Vec::new();
        if other {
            return spans;
        }
        let mut left_out = 0;
        if let Some(open) = self.follow(&key, machine, stage, call.queued, &mut spans) {
            if let Some(id) = &call.provider_id {
                open.set_provider_id(id);
            }
            match open.child(call) {
                Some(span) => spans.push(span),
                None => left_out = 1,
            }
        }
        self.left_out += left_out;
        spans
    }

    /// Processes the removal of a Machine.
    pub(super) fn gone(&mut self, key: &Key, at: Timestamp) -> Vec<Span> {
        match self.open.remove(key) {
            None => Vec::new(),
            Some(open) => open.end(at, "gone"),
        }
    }

    /// Ends all open stages, because this process stops. The traces continue; the process that ends them creates their
    /// root span.
    pub(super) fn interrupted(&mut self, at: Timestamp) -> Vec<Span> {
        let all = std::mem::take(&mut self.open);
        all.into_values().map(|open| open.phase.end(&open.trace, &open.identity, at, "interrupted")).collect()
    }

    /// Ends the open trace of this key, unless it belongs to this Machine and has this kind.
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

    /// Advances the trace of this Machine to a stage. Starts the trace if there is none. Returns `None` if the Machine
    /// is not traced.
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
            if self.open.len() >= MAX_TRACES {
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
        let requested = match kind {
            TraceKind::Creation => machine.created_at(),
            TraceKind::Deletion => machine.deleted_at(),
        };
        let begun = requested.unwrap_or(at).min(at);
        // The first span of an operation that an earlier process started was created by that process.
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

    fn set_provider_id(&mut self, id: &str) {
        if !self.identity.iter().any(|(key, _)| *key == PROVIDER_ID) {
            self.identity.push((PROVIDER_ID, id.into()));
        }
    }

    fn child(&mut self, call: &DriverCall) -> Option<Span> {
        let phase = &mut self.phase;
        phase.calls += 1;
        let code = call.code.to_string();
        phase.code = (call.result == DriverCallResult::Failure).then(|| code.clone());
        if phase.calls > MAX_CALLS {
            return None;
        }
        let waited = call.sent.duration_since(call.queued).as_millis();
        let mut attributes = self.identity.clone();
        attributes.push((CODE, code.as_str().into()));
        attributes.push(("millwright.limiter.waited_ms", Value::Number(i64::try_from(waited).unwrap_or(i64::MAX))));
        Some(Span {
            trace: self.trace,
            id: self.trace.span(call.call.method(), call.sent),
            parent: Some(phase.span),
            name: call.call.method(),
            kind: Kind::Client,
            start: call.sent,
            end: call.ended,
            attributes,
            events: Vec::new(),
            events_left_out: 0,
            status: match call.result {
                DriverCallResult::Success => Status::Ok,
                DriverCallResult::Failure => Status::Error(code),
            },
        })
    }

    /// Ends the open stage and the trace.
    fn end(self, at: Timestamp, outcome: &'static str) -> Vec<Span> {
        let succeeded = matches!(
            (self.kind, outcome),
            (TraceKind::Creation, "running" | "available") | (TraceKind::Deletion, "gone")
        );
        let last = self.phase.end(&self.trace, &self.identity, at, if succeeded { "done" } else { outcome });
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
            status: if succeeded { Status::Ok } else { Status::Error(outcome.to_owned()) },
        };
        vec![last, root]
    }
}

impl Phase {
    fn begin(trace: TraceId, stage: Stage, since: Timestamp) -> Self {
        let span = trace.span(stage.name(), since);
        Self { stage, span, since, calls: 0, code: None, events: Vec::new(), events_left_out: 0 }
    }

    fn add_event(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
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

/// Returns the attributes of the Machine. A known provider ID is kept.
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
        Stage::LookUpVm | Stage::Create | Stage::Initialize | Stage::Join => Some(TraceKind::Creation),
        Stage::Live => None,
        Stage::Drain | Stage::DeleteVm | Stage::DeleteNode | Stage::RemoveFinalizer => Some(TraceKind::Deletion),
    }
}

/// Returns the stage of a call.
fn stage_of(call: Call, deleting: bool) -> Stage {
    match (call, deleting) {
        (Call::Status, false) => Stage::LookUpVm,
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
