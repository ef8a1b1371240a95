//! Whether decisions may be based on the caches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::safety::freeze::{Evaluation, Frozen, Probe, State, Transition};
use planner::safety::{ClockStep, ClockWatch, Outages, SafetyPolicy};
use runtime::Clock;
use runtime::client::ServerTime;
use tokio::time::Instant;

/// Connectivity to the API servers. Clones share all state. Reading it takes a lock and sends no request.
#[derive(Clone, Debug)]
pub struct ApiConnectivity {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    beginning: Instant,
    clock_tolerance: Duration,
}

/// Compares the clock of this process with those of the API servers.
pub(super) struct ClockCheck {
    pub(super) servers: Vec<ServerTime>,
    pub(super) clock: Clock,
    /// Maximum skew.
    pub(super) limit: Duration,
    /// Called when the maximum is exceeded.
    pub(super) exceeded: Box<dyn Fn() + Send + Sync>,
}

impl ClockCheck {
    /// Returns the largest skew between the clock of this process and that of an API server.
    fn skew(&self) -> Option<SignedDuration> {
        self.servers.iter().filter_map(|server| server.skew(&self.clock)).max_by_key(|skew| skew.abs())
    }
}

impl fmt::Debug for ClockCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockCheck").field("servers", &self.servers).field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Inner {
    clock_check: Option<Arc<ClockCheck>>,
    state: State,
    outages: Arc<Outages>,
    nodes_listed_at: Option<Timestamp>,
    clocks: ClockWatch,
}

impl ApiConnectivity {
    /// Starts connected, without outages.
    pub fn new(policy: &SafetyPolicy, clock: &Clock) -> Self {
        let (clock, beginning) = (clock.clone(), clock.instant());
        let connectivity = Self { inner: Arc::default(), clock, beginning, clock_tolerance: policy.clock_tolerance };
        connectivity.time();
        connectivity
    }

    /// Returns the current time and the outages so far. Every deadline is computed from these two. A step of the wall
    /// clock since the last call is detected here and added to the outages, so that no decision is based on a clock
    /// that has just stepped.
    pub fn time(&self) -> (Timestamp, Arc<Outages>) {
        let mut inner = self.inner.lock();
        let elapsed = self.clock.instant().saturating_duration_since(self.beginning);
        let now = self.clock.now();
        if let Some(step) = inner.clocks.look(now, elapsed, self.clock_tolerance) {
            Arc::make_mut(&mut inner.outages).stepped(step, now);
            match step {
                ClockStep::Forward(by) => {
                    tracing::warn!(?by, "detected forward step of the wall clock; moving all deadlines by it");
                }
                ClockStep::Backward(by) => {
                    tracing::warn!(?by, "detected backward step of the wall clock");
                    inner.state.clock_stepped_back(now);
                    inner.nodes_listed_at = inner.nodes_listed_at.map(|at| at.min(now));
                }
            }
        }
        (now, inner.outages.clone())
    }

    pub(super) fn watch_clocks(&self, clocks: ClockCheck) {
        self.inner.lock().clock_check = Some(Arc::new(clocks));
    }

    /// Returns the largest skew between the clock of this process and that of an API server; `None` until an API server
    /// has reported its time.
    pub fn clock_skew(&self) -> Option<SignedDuration> {
        let clocks = self.inner.lock().clock_check.clone();
        clocks.and_then(|clocks| clocks.skew())
    }

    /// Returns whether the skew exceeds the limit.
    pub fn is_clock_skewed(&self) -> bool {
        let Some(clocks) = self.inner.lock().clock_check.clone() else { return false };
        let Some(skew) = clocks.skew().filter(|skew| skew.unsigned_abs() > clocks.limit) else { return false };
        if self.inner.lock().state.clock_skewed(skew) {
            (clocks.exceeded)();
        }
        true
    }

    /// Returns whether decisions may be based on the caches.
    pub fn now(&self) -> planner::machine::Connectivity {
        if self.is_clock_skewed() {
            return planner::machine::Connectivity::Frozen;
        }
        if self.inner.lock().state.is_reliable() {
            planner::machine::Connectivity::Connected
        } else {
            planner::machine::Connectivity::Frozen
        }
    }

    /// Returns since when and why the machine controller is frozen, once it is.
    pub fn frozen(&self) -> Option<Frozen> {
        self.inner.lock().state.frozen().cloned()
    }

    /// Records that there was no leader since `since`. If this lasted as long as a freeze, health timeouts do not
    /// include that time.
    pub fn without_leader(&self, since: Timestamp, policy: &SafetyPolicy, now: Timestamp) {
        let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        Arc::make_mut(&mut self.inner.lock().outages).led_until(since);
        if lasted >= policy.freeze_after {
            tracing::info!(%since, "there was no leader since then; extending health timeouts");
            Arc::make_mut(&mut self.inner.lock().outages).without_leader(since, now);
        }
    }

    /// Records that a list lacked Nodes that existed before. If they are too many, no Machine is marked Failed from now
    /// on.
    pub fn nodes_disappeared(&self, gone: usize, of: usize, policy: &SafetyPolicy, now: Timestamp) {
        self.inner.lock().state.nodes_disappeared(gone, of, policy, now);
    }

    /// Records that Nodes were listed with quorum, requested at this time.
    pub fn nodes_listed(&self, requested_at: Timestamp) {
        self.inner.lock().nodes_listed_at = Some(requested_at);
    }

    /// Returns when Nodes were last listed with quorum.
    pub fn nodes_listed_at(&self) -> Option<Timestamp> {
        self.inner.lock().nodes_listed_at
    }

    /// Evaluates a probe.
    pub fn evaluate(&self, probe: &Probe, policy: &SafetyPolicy) -> Evaluation {
        let mut inner = self.inner.lock();
        let evaluation = inner.state.evaluate(probe, policy);
        inner.state = evaluation.state.clone();
        match &evaluation.transition {
            Transition::None => {}
            Transition::Froze(frozen) => Arc::make_mut(&mut inner.outages).begin(frozen.disconnected_since),
            Transition::Unfroze(_) => Arc::make_mut(&mut inner.outages).end(probe.now),
        }
        evaluation
    }
}
