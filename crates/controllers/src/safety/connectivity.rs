//! Whether this process sees, for everyone who decides.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use planner::safety::freeze::{Frozen, Judgement, News, Probe, State};
use planner::safety::{ClockStep, ClockWatch, Outages, SafetyPolicy};
use runtime::Clock;
use runtime::client::ServerTime;
use tokio::time::Instant;

/// What is known of our connectivity. Clones are the same; looking at it costs a lock and no request.
#[derive(Clone, Debug)]
pub struct ApiConnectivity {
    inside: Arc<Mutex<Inside>>,
    clock: Clock,
    beginning: Instant,
    clock_tolerance: Duration,
}

/// How the own clock is compared with those of the API servers.
pub(super) struct ClockCheck {
    pub(super) servers: Vec<ServerTime>,
    pub(super) clock: Clock,
    /// Maximum skew.
    pub(super) limit: Duration,
    /// Called when the maximum is exceeded.
    pub(super) exceeded: Box<dyn Fn() + Send + Sync>,
}

impl ClockCheck {
    /// The largest skew of the own clock against an API server's.
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
struct Inside {
    clock_check: Option<Arc<ClockCheck>>,
    state: State,
    outages: Arc<Outages>,
    recounted: Option<Timestamp>,
    clocks: ClockWatch,
}

impl ApiConnectivity {
    /// Connected, without any outage.
    pub fn new(policy: &SafetyPolicy, clock: &Clock) -> Self {
        let (clock, beginning) = (clock.clone(), clock.instant());
        let connectivity = Self { inside: Arc::default(), clock, beginning, clock_tolerance: policy.clock_tolerance };
        connectivity.time();
        connectivity
    }

    /// Returns the time and the outages until then. Every deadline is computed from these two: a step of the wall clock since the last call
    /// is found here and is one of the outages, so that no decision is made on a clock that has just stepped.
    pub fn time(&self) -> (Timestamp, Arc<Outages>) {
        let mut inside = self.inside.lock();
        let elapsed = self.clock.instant().saturating_duration_since(self.beginning);
        let now = self.clock.now();
        if let Some(step) = inside.clocks.look(now, elapsed, self.clock_tolerance) {
            Arc::make_mut(&mut inside.outages).stepped(step, now);
            match step {
                ClockStep::Forward(by) => {
                    tracing::warn!(?by, "detected forward step of the wall clock; moving all deadlines by it");
                }
                ClockStep::Backward(by) => {
                    tracing::warn!(?by, "detected backward step of the wall clock");
                    inside.state.clock_stepped_back(now);
                    inside.recounted = inside.recounted.map(|at| at.min(now));
                }
            }
        }
        (now, inside.outages.clone())
    }

    pub(super) fn watch_clocks(&self, clocks: ClockCheck) {
        self.inside.lock().clock_check = Some(Arc::new(clocks));
    }

    /// The largest skew of the own clock against an API server's; `None` while no API server has shown its time.
    pub fn clock_skew(&self) -> Option<SignedDuration> {
        let clocks = self.inside.lock().clock_check.clone();
        clocks.and_then(|clocks| clocks.skew())
    }

    /// Whether the own clock differs from an API server's by more than the limit.
    pub fn is_clock_skewed(&self) -> bool {
        let Some(clocks) = self.inside.lock().clock_check.clone() else { return false };
        let Some(skew) = clocks.skew().filter(|skew| skew.unsigned_abs() > clocks.limit) else { return false };
        if self.inside.lock().state.clock_skewed(skew) {
            (clocks.exceeded)();
        }
        true
    }

    /// Whether decisions may rest on what we see.
    pub fn now(&self) -> planner::machine::Connectivity {
        if self.is_clock_skewed() {
            return planner::machine::Connectivity::Frozen;
        }
        if self.inside.lock().state.sees() {
            planner::machine::Connectivity::Connected
        } else {
            planner::machine::Connectivity::Frozen
        }
    }

    /// Since when and why they may not, once that is certain.
    pub fn frozen(&self) -> Option<Frozen> {
        self.inside.lock().state.frozen().cloned()
    }

    /// Before us nobody led since `since`. A hand-over is quick; what took as long as a freeze counts against nobody.
    pub fn unattended(&self, since: Timestamp, policy: &SafetyPolicy, now: Timestamp) {
        let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        Arc::make_mut(&mut self.inside.lock().outages).led_until(since);
        if lasted >= policy.freeze_after {
            tracing::info!(%since, "nobody looked since then, so that time is held against no machine");
            Arc::make_mut(&mut self.inside.lock().outages).unattended(since, now);
        }
    }

    /// A list of Nodes lacked some. If they are too many, no machine is marked Failed from this moment on.
    pub fn nodes_disappeared(&self, gone: usize, of: usize, policy: &SafetyPolicy, now: Timestamp) {
        self.inside.lock().state.nodes_disappeared(gone, of, policy, now);
    }

    /// Nodes were read with quorum, as asked for at this time.
    pub fn nodes_counted(&self, asked: Timestamp) {
        self.inside.lock().recounted = Some(asked);
    }

    /// When they last were.
    pub fn recounted(&self) -> Option<Timestamp> {
        self.inside.lock().recounted
    }

    /// Takes a look into account.
    pub fn judge(&self, probe: &Probe, policy: &SafetyPolicy) -> Judgement {
        let mut inside = self.inside.lock();
        let judgement = inside.state.judge(probe, policy);
        inside.state = judgement.state.clone();
        match &judgement.news {
            News::None => {}
            News::Froze(frozen) => Arc::make_mut(&mut inside.outages).begin(frozen.disconnected_since),
            News::Thawed(_) => Arc::make_mut(&mut inside.outages).end(probe.now),
        }
        judgement
    }
}
