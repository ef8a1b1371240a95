//! The web view of a process (`--ui`).

use std::sync::Arc;

use controllers::{Cluster, Listener};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Tasks};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::component::ProcessContext;
use crate::http;
use crate::ui::{Access, Reviews, Timeline, View, acceptor, serve};

/// A web view that listens but is not served yet.
pub(super) struct WebView {
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    access: Access,
    timeline: Timeline,
    clock: Clock,
}

impl WebView {
    /// Starts listening, if the web view is enabled.
    pub(super) async fn listen(context: &ProcessContext<'_>, metrics: &Metrics) -> anyhow::Result<Option<Self>> {
        let Some(options) = context.web_view() else { return Ok(None) };
        let acceptor = options.tls.map(|(certificate, key)| acceptor(certificate, key)).transpose()?;
        let access = if options.address.ip().is_loopback() {
            Access::Loopback
        } else {
            Access::Reviewed(Reviews::new(context.reviewing(metrics)))
        };
        let listener = http::listen(options.address.ip(), options.address.port(), "--ui-address").await?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        tracing::info!(url = format!("{scheme}://{}/", options.address), "serving web view");
        let clock = context.clock().clone();
        Ok(Some(Self { listener, acceptor, access, timeline: Timeline::new(clock.clone()), clock }))
    }

    /// Returns the listener for decisions.
    pub(super) fn listener(&self) -> Listener {
        self.timeline.listener()
    }

    /// Serves the web view for these controllers.
    pub(super) fn serve(self, cluster: Arc<Cluster>, leadership: Leadership, tasks: &Tasks) {
        let Self { listener, acceptor, access, timeline, clock } = self;
        let view = View { cluster, timeline, leadership, clock };
        tasks.spawn("web view", serve(listener, view, access, acceptor, tasks.clone()));
    }
}
