//! Whether this process sees, for everyone who decides.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use plan::safety::freeze::{Frozen, Judgement, News, Probe, State};
use plan::safety::{Outages, SafetyPolicy};

/// What is known of our connectivity. Clones are the same; looking at it costs a lock and no request.
#[derive(Clone, Debug, Default)]
pub struct ApiConnectivity {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Debug, Default)]
struct Inside {
    state: State,
    outages: Arc<Outages>,
    recounted: Option<Timestamp>,
}

impl ApiConnectivity {
    /// Whether decisions may rest on what we see.
    pub fn now(&self) -> plan::machine::Connectivity {
        if self.inside.lock().state.sees() {
            plan::machine::Connectivity::Connected
        } else {
            plan::machine::Connectivity::Frozen
        }
    }

    /// Since when and why they may not, once that is certain.
    pub fn frozen(&self) -> Option<Frozen> {
        self.inside.lock().state.frozen().cloned()
    }

    /// When they could not.
    pub fn outages(&self) -> Arc<Outages> {
        self.inside.lock().outages.clone()
    }

    /// Before us nobody led since `since`. A hand-over is quick; what took as long as a freeze counts against nobody.
    pub fn unattended(&self, since: Timestamp, policy: &SafetyPolicy, now: Timestamp) {
        let lasted = Duration::try_from(now.duration_since(since)).unwrap_or_default();
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
