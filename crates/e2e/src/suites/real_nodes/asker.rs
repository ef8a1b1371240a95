//! A client that asks every endpoint of a service all the time, as users do.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use tokio::time::Instant;

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
    /// The longest that anybody had to wait for an answer.
    pub(super) slowest: Duration,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, slowest) = (self.failures.len(), self.slowest.as_millis());
        let Self { asked, fewest, .. } = self;
        write!(f, "{asked} requests, {failed} failed, the slowest {slowest} ms, {fewest} endpoints at the fewest")
    }
}

impl Seen {
    /// Fails if a request did, or if there ever were fewer endpoints.
    pub(super) fn judge(&self, available: usize) -> anyhow::Result<()> {
        let first = self.failures.first();
        ensure!(first.is_none(), "{} of {} requests failed: {first:?}", self.failures.len(), self.asked);
        ensure!(self.fewest >= available, "there were only {} endpoints", self.fewest);
        Ok(())
    }
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
        let listed = Instant::now();
        let addresses = endpoints(api).await?;
        seen.fewest = seen.fewest.min(addresses.len());
        for address in addresses {
            seen.asked += 1;
            let asked = Instant::now();
            let answer = client::get(address, PORT).await;
            seen.slowest = seen.slowest.max(asked.elapsed());
            if let Err(error) = answer {
                let (late, pod) = (listed.elapsed().as_millis(), pod_at(api, address).await?);
                seen.failures.push(format!("{error:#}, {late} ms after the endpoints were listed; the pod is {pod}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(seen)
}

/// What the API server shows now of the pod at this address: whether it failed while it served, or when it was ending, tells whose fault it is.
async fn pod_at(api: &Proxy, address: Ipv4Addr) -> anyhow::Result<String> {
    let answer = api.get(&format!("/api/v1/pods?fieldSelector=status.podIP={address}")).await?;
    let list: Value = serde_json::from_str(&answer.body).context("the pods are no JSON")?;
    let Some(pod) = list.pointer("/items/0") else { return Ok("gone".to_owned()) };
    let (phase, ends) = (text(pod, "/status/phase"), text(pod, "/metadata/deletionTimestamp"));
    Ok(format!("{phase} on {} and to end by {ends:?}", text(pod, "/spec/nodeName")))
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
