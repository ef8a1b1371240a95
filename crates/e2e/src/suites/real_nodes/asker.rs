//! A client that asks every endpoint of a service all the time, as users do.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::Value;

use super::client;
use super::cluster::text;
use super::workload::PORT;
use crate::web::Proxy;

const PAUSE: Duration = Duration::from_millis(100);

/// What it saw.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) asked: usize,
    pub(super) failures: Vec<String>,
    /// The fewest endpoints there ever were.
    pub(super) fewest: usize,
}

/// Asks, in a thread of its own, because the cases of a suite wait for kubectl without looking up.
pub(super) struct Asker {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Seen>>,
}

impl Asker {
    /// Begins.
    pub(super) fn start(api: Proxy) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let ended = enough.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(ask_until(&ended, &api))
        });
        Self { enough, thread }
    }

    /// Ends, and tells what it saw.
    pub(super) fn stop(self) -> anyhow::Result<Seen> {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the client panicked"))?
    }
}

async fn ask_until(ended: &AtomicBool, api: &Proxy) -> anyhow::Result<Seen> {
    let mut seen = Seen { fewest: usize::MAX, ..Seen::default() };
    while !ended.load(Ordering::Relaxed) {
        let addresses = endpoints(api).await?;
        seen.fewest = seen.fewest.min(addresses.len());
        for address in addresses {
            seen.asked += 1;
            if let Err(error) = client::get(address, PORT).await {
                seen.failures.push(format!("{error:#}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(seen)
}

/// The addresses that a proxy would send clients to.
async fn endpoints(api: &Proxy) -> anyhow::Result<Vec<Ipv4Addr>> {
    let path =
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
    let answer = api.get(path).await?;
    let list: Value = serde_json::from_str(&answer.body).context("the endpoints are no JSON")?;
    let items = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let all = items(&list, "items").into_iter().flat_map(|slice| items(&slice, "endpoints"));
    let ready = all.filter(|endpoint| endpoint.pointer("/conditions/ready").and_then(Value::as_bool) == Some(true));
    ready.map(|endpoint| text(&endpoint, "/addresses/0").parse().context("an endpoint has no address")).collect()
}
