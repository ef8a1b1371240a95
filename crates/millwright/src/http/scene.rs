//! What there is to see of the controllers. The port is open before there are any.

use std::sync::{Arc, OnceLock};

use controllers::{Cluster, Listener};
use runtime::lease::Leadership;

use super::Notebook;

/// The controllers of one component, once they have been started. Clones are the same.
#[derive(Clone)]
pub(crate) struct Scene {
    view: Arc<OnceLock<View>>,
    notebook: Notebook,
}

/// Controllers that have been started.
pub(super) struct View {
    pub(super) cluster: Arc<Cluster>,
    /// Of the component that this port speaks for.
    pub(super) leadership: Leadership,
}

impl Scene {
    /// Nothing to see yet; what is decided will be in this notebook.
    pub(crate) fn new(notebook: Notebook) -> Self {
        Self { view: Arc::default(), notebook }
    }

    /// The controllers have been started. A second time changes nothing.
    pub(crate) fn open(&self, cluster: Arc<Cluster>, leadership: Leadership) {
        self.notebook.know(&cluster);
        let _ = self.view.set(View { cluster, leadership });
    }

    /// Who has to be told of every decision for it to be shown.
    pub(crate) fn listener(&self) -> Listener {
        self.notebook.listener()
    }

    pub(super) fn view(&self) -> Option<&View> {
        self.view.get()
    }

    pub(super) fn notebook(&self) -> &Notebook {
        &self.notebook
    }
}
