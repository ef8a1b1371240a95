//! The web view of a process (`--ui`).

use std::sync::Arc;

use controllers::{Cluster, Listener};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Tasks};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::component::Setting;
use crate::http;
use crate::ui::{Access, Reviews, Timeline, View, acceptor, serve};

/// A web view that has its port and shows nothing yet.
pub(super) struct WebView {
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    access: Access,
    timeline: Timeline,
    clock: Clock,
}

impl WebView {
    /// Takes the port, if a view was asked for.
    pub(super) async fn listen(setting: &Setting<'_>, metrics: &Metrics) -> anyhow::Result<Option<Self>> {
        let Some(wish) = setting.web_view() else { return Ok(None) };
        let acceptor = wish.tls.map(|(certificate, key)| acceptor(certificate, key)).transpose()?;
        let access = if wish.address.ip().is_loopback() {
            Access::Loopback
        } else {
            Access::Reviewed(Reviews::new(setting.reviewing(metrics)))
        };
        let listener = http::listen(wish.address.ip(), wish.address.port(), "--ui-address").await?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        tracing::info!("the web view is at {scheme}://{}/", wish.address);
        let clock = setting.clock().clone();
        Ok(Some(Self { listener, acceptor, access, timeline: Timeline::new(clock.clone()), clock }))
    }

    /// Whom to tell of decisions.
    pub(super) fn listener(&self) -> Listener {
        self.timeline.listener()
    }

    /// Shows these controllers from now on.
    pub(super) fn serve(self, cluster: Arc<Cluster>, leadership: Leadership, tasks: &Tasks) {
        let Self { listener, acceptor, access, timeline, clock } = self;
        let view = View { cluster, timeline, leadership, clock };
        tasks.spawn("web view", serve(listener, view, access, acceptor, tasks.clone()));
    }
}
