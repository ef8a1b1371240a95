//! Clusters that this process learns of from Secrets.

use runtime::client::{ClientSpec, Connection, KubeconfigText, Source};
use runtime::metrics::RestMetrics;

/// How a driver reaches a cluster that is neither the one of Machines nor the one of their nodes.
#[derive(Clone)]
pub struct OtherClusters {
    spec: ClientSpec,
    metrics: RestMetrics,
}

impl OtherClusters {
    pub(crate) fn new(spec: ClientSpec, metrics: RestMetrics) -> Self {
        Self { spec, metrics }
    }

    /// A client for the cluster that this kubeconfig describes; `place` names where it was, for people. It may name no file and no program of this
    /// host. Nothing is sent yet.
    pub fn client(&self, kubeconfig: &[u8], place: &str) -> Result<kube::Client, String> {
        let text = String::from_utf8(kubeconfig.to_vec()).map_err(|_| "it is not valid UTF-8".to_owned())?;
        let source = Source::Text { text: KubeconfigText::new(text), place: place.to_owned() };
        let connection = Connection::load(&source).map_err(|error| error.sentence())?;
        Ok(connection.client(&self.spec, &self.metrics))
    }
}
