//! What there is to see of the controllers. The port is open before there are any.

use std::sync::{Arc, OnceLock};

use controllers::{Cluster, Listener};
use runtime::lease::Leadership;

use super::LastDecisions;

/// The controllers of one component, once they have been started. Clones are the same.
#[derive(Clone)]
pub(crate) struct ControllerState {
    view: Arc<OnceLock<View>>,
    last_decisions: LastDecisions,
}

/// Controllers that have been started.
pub(super) struct View {
    pub(super) cluster: Arc<Cluster>,
    /// Of the component that this port speaks for.
    pub(super) leadership: Leadership,
}

impl ControllerState {
    /// Nothing to see yet; what is decided will be in this last_decisions.
    pub(crate) fn new(last_decisions: LastDecisions) -> Self {
        Self { view: Arc::default(), last_decisions }
    }

    /// The controllers have been started. A second time changes nothing.
    pub(crate) fn open(&self, cluster: Arc<Cluster>, leadership: Leadership) {
        self.last_decisions.know(&cluster);
        let _ = self.view.set(View { cluster, leadership });
    }

    /// Who has to be told of every decision for it to be shown.
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
