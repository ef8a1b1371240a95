//! Clusters whose kubeconfig is in a Secret.

use runtime::client::{ClientSpec, Connection, KubeconfigText, Source};
use runtime::metrics::RestMetrics;

/// Creates clients for clusters other than the control and the target cluster.
#[derive(Clone)]
pub struct OtherClusters {
    spec: ClientSpec,
    metrics: RestMetrics,
}

impl OtherClusters {
    pub(crate) fn new(spec: ClientSpec, metrics: RestMetrics) -> Self {
        Self { spec, metrics }
    }

    /// Returns a client for the cluster of this kubeconfig. `place` names the source of the kubeconfig in errors. The
    /// kubeconfig may reference no files and no programs of this host. No request is sent yet.
    pub fn client(&self, kubeconfig: &[u8], place: &str) -> Result<kube::Client, String> {
        let text = String::from_utf8(kubeconfig.to_vec()).map_err(|_| "not valid UTF-8".to_owned())?;
        let source = Source::Text { text: KubeconfigText::new(text), place: place.to_owned() };
        let connection = Connection::load(&source).map_err(|error| error.sentence())?;
        Ok(connection.client(&self.spec, &self.metrics))
    }
}
