//! A client that asks every endpoint of a service all the time, as users do.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client;
use super::cluster::text;
use super::workload::PORT;
use crate::web::Proxy;

const PAUSE: Duration = Duration::from_millis(100);
/// Whoever is not answered by then was failed. A pod that is gone never answers, so this decides only what is too slow.
const PATIENCE: Duration = Duration::from_secs(3);

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
        let addresses = endpoints(api).await?;
        seen.fewest = seen.fewest.min(addresses.len());
        for answer in ask_all(&addresses, PORT).await {
            seen.asked += 1;
            seen.slowest = seen.slowest.max(answer.after);
            if let Some(error) = answer.failure {
                let (late, pod) = (answer.after.as_millis(), pod_at(api, answer.from).await?);
                seen.failures.push(format!("{error:#}, {late} ms after the endpoints were listed; the pod is {pod}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(seen)
}

/// What one endpoint answered, and how long after it was listed.
#[derive(Debug)]
struct Answer {
    from: Ipv4Addr,
    after: Duration,
    failure: Option<anyhow::Error>,
}

/// Asks all at the same time: behind a slow one, others would be asked by a list that is old.
async fn ask_all(addresses: &[Ipv4Addr], port: u16) -> Vec<Answer> {
    let begin = Instant::now();
    let ask = |from: Ipv4Addr| async move {
        let failure = client::get_within(PATIENCE, from, port).await.err();
        Answer { from, after: begin.elapsed(), failure }
    };
    addresses.iter().copied().map(ask).collect::<JoinSet<Answer>>().join_all().await
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Shows HST-32.
    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_answered_within_three_seconds_has_failed() {
        // The kernel takes the connection, and nobody reads from it.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let answers = ask_all(&[Ipv4Addr::LOCALHOST; 2], silent.local_addr().unwrap().port()).await;
        for answer in answers {
            let failure = answer.failure.as_ref().unwrap().to_string();
            assert_eq!(failure, "127.0.0.1 did not answer within 3 s");
            assert!(answer.after < Duration::from_secs(4), "they were asked one after the other: {answer:?}");
        }
    }

    /// Shows HST-32.
    #[test]
    fn one_failed_request_or_one_endpoint_too_few_is_too_many() {
        let good = Seen { asked: 9, fewest: 5, ..Seen::default() };
        assert!(good.judge(5).is_ok());
        assert!(Seen { failures: vec!["refused".to_owned()], ..good.clone() }.judge(5).is_err());
        assert!(Seen { fewest: 4, ..good }.judge(5).is_err());
    }
}
