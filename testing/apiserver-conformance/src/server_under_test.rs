//! The server that is held to the cases.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fake_apiserver::{Options, Server};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config, ResourceExt};
use runtime::{Clock, Random};

/// An API server, and a word that tells this run from others on the same server. Clones are the same server.
#[derive(Clone)]
pub struct ServerUnderTest {
    client: kube::Client,
    ours: Option<Server>,
    run: Arc<str>,
}

impl ServerUnderTest {
    /// The server of a kubeconfig. kube's own client, not ours: a case must see what the server said to the letter, and ours
    /// adds what a controller needs to know.
    pub async fn real(kubeconfig: &Path) -> anyhow::Result<Self> {
        let options = KubeConfigOptions::default();
        let kubeconfig = Kubeconfig::read_from(kubeconfig).context("failed to read the kubeconfig")?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.context("failed to use it")?;
        config.default_retry = false;
        let client = kube::Client::try_from(config).context("failed to make a client of it")?;
        let run = format!("{:05x}", Random::from_entropy().below(1 << 20));
        Ok(Self { client, ours: None, run: run.into() })
    }

    /// A fresh server in memory, whose time is tokio's.
    pub fn in_memory() -> Self {
        let clock = Clock::starting_at(k8s_openapi::jiff::Timestamp::UNIX_EPOCH + Duration::from_hours(24 * 365 * 56));
        let server = Server::new(Options::new(Arc::new(move || clock.now()), 7));
        Self { client: kube::Client::new(server.service(), "default"), ours: Some(server), run: "00000".into() }
    }

    /// Does this while somebody collects orphans and ends namespaces, as kube-controller-manager does beside a real server.
    pub async fn keeping_house<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(server) = &self.ours else { return work.await };
        tokio::select! {
            biased;
            done = work => done,
            never = server.keep_house() => match never {},
        }
    }

    /// Deletes the namespaces of this run. They are of no use to anybody, so it does not matter if that fails.
    pub async fn give_back(&self) {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let ours = format!("c-{}-", self.run);
        let left = namespaces.list_metadata(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        for namespace in left.iter().map(ResourceExt::name_any).filter(|name| name.starts_with(&ours)) {
            let _ = namespaces.delete(&namespace, &DeleteParams::default()).await;
        }
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub(crate) fn run(&self) -> &str {
        &self.run
    }
}
