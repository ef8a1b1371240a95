//! The controllers, as far as HTTP endpoints show them. The port is open before the controllers start.

use std::sync::{Arc, OnceLock};

use controllers::{Cluster, Listener};
use runtime::lease::Leadership;

use super::LastDecisions;

/// The controllers of one component, after they have started. Clones share their state.
#[derive(Clone)]
pub(crate) struct ControllerState {
    view: Arc<OnceLock<View>>,
    last_decisions: LastDecisions,
}

/// Started controllers.
pub(super) struct View {
    pub(super) cluster: Arc<Cluster>,
    /// Leadership of the component of this port.
    pub(super) leadership: Leadership,
}

impl ControllerState {
    /// Creates the state before the controllers start.
    pub(crate) fn new(last_decisions: LastDecisions) -> Self {
        Self { view: Arc::default(), last_decisions }
    }

    /// Sets the controllers. Later calls have no effect.
    pub(crate) fn set(&self, cluster: Arc<Cluster>, leadership: Leadership) {
        self.last_decisions.set_cluster(&cluster);
        let _ = self.view.set(View { cluster, leadership });
    }

    /// Returns the listener that stores every decision.
    pub(crate) fn listener(&self) -> Listener {
        self.last_decisions.listener()
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.view.get()
    }

    pub(super) fn last_decisions(&self) -> &LastDecisions {
        &self.last_decisions
    }
}
