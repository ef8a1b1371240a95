//! A client that continuously sends requests to every endpoint of a Service.

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
/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Result of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadResult {
    pub(super) asked: usize,
    pub(super) failures: Vec<String>,
    /// The smallest number of endpoints.
    pub(super) fewest: usize,
    /// The longest response time.
    pub(super) slowest: Duration,
}

impl fmt::Display for LoadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, slowest) = (self.failures.len(), self.slowest.as_millis());
        let Self { asked, fewest, .. } = self;
        write!(f, "{asked} requests, {failed} failed, at most {slowest} ms, at least {fewest} endpoints")
    }
}

impl LoadResult {
    /// Fails if a request failed, or if there were fewer endpoints than this.
    pub(super) fn judge(&self, available: usize) -> anyhow::Result<()> {
        let first = self.failures.first();
        ensure!(first.is_none(), "{} of {} requests failed: {first:?}", self.failures.len(), self.asked);
        ensure!(self.fewest >= available, "only {} endpoints were available", self.fewest);
        Ok(())
    }
}

/// Sends requests on a separate thread, because the cases of a suite block in kubectl.
pub(super) struct LoadClient {
    enough: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<LoadResult>>,
}

impl LoadClient {
    /// Starts the requests.
    pub(super) fn start(api: Proxy) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let ended = enough.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(send_until(&ended, &api))
        });
        Self { enough, thread }
    }

    /// Stops, and returns the result.
    pub(super) fn stop(self) -> anyhow::Result<LoadResult> {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the client panicked"))?
    }
}

async fn send_until(ended: &AtomicBool, api: &Proxy) -> anyhow::Result<LoadResult> {
    let mut seen = LoadResult { fewest: usize::MAX, ..LoadResult::default() };
    while !ended.load(Ordering::Relaxed) {
        let addresses = endpoints(api).await?;
        seen.fewest = seen.fewest.min(addresses.len());
        for answer in send_to_all(&addresses, PORT).await {
            seen.asked += 1;
            seen.slowest = seen.slowest.max(answer.after);
            if let Some(error) = answer.failure {
                let (late, pod) = (answer.after.as_millis(), pod_at(api, answer.from).await?);
                seen.failures.push(format!("{error:#}, {late} ms after the list of the endpoints; the pod is {pod}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(seen)
}

/// The response of one endpoint, and its time after the list.
#[derive(Debug)]
struct Answer {
    from: Ipv4Addr,
    after: Duration,
    failure: Option<anyhow::Error>,
}

/// Sends all requests in parallel, because after a slow response the list of endpoints would be stale.
async fn send_to_all(addresses: &[Ipv4Addr], port: u16) -> Vec<Answer> {
    let begin = Instant::now();
    let ask = |from: Ipv4Addr| async move {
        let failure = client::get_within(TIMEOUT, from, port).await.err();
        Answer { from, after: begin.elapsed(), failure }
    };
    addresses.iter().copied().map(ask).collect::<JoinSet<Answer>>().join_all().await
}

/// Returns the current state of the pod at this address, which shows whether it failed while it served or was
/// terminating.
async fn pod_at(api: &Proxy, address: Ipv4Addr) -> anyhow::Result<String> {
    let answer = api.get(&format!("/api/v1/pods?fieldSelector=status.podIP={address}")).await?;
    let list: Value = serde_json::from_str(&answer.body).context("the list of pods is not JSON")?;
    let Some(pod) = list.pointer("/items/0") else { return Ok("deleted".to_owned()) };
    let (phase, ends) = (text(pod, "/status/phase"), text(pod, "/metadata/deletionTimestamp"));
    Ok(format!("{phase} on {}, deletionTimestamp {ends:?}", text(pod, "/spec/nodeName")))
}

/// Returns the addresses of the ready endpoints.
async fn endpoints(api: &Proxy) -> anyhow::Result<Vec<Ipv4Addr>> {
    let path =
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
    let answer = api.get(path).await?;
    let list: Value = serde_json::from_str(&answer.body).context("the list of endpoints is not JSON")?;
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
    async fn a_request_without_a_response_for_three_seconds_fails() {
        // The kernel accepts the connection, but no program reads from it.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let answers = send_to_all(&[Ipv4Addr::LOCALHOST; 2], silent.local_addr().unwrap().port()).await;
        for answer in answers {
            let failure = answer.failure.as_ref().unwrap().to_string();
            assert_eq!(failure, "127.0.0.1 did not respond within 3 s");
            assert!(answer.after < Duration::from_secs(4), "the requests were sent one after the other: {answer:?}");
        }
    }

    /// Shows HST-32.
    #[test]
    fn one_failed_request_or_missing_endpoint_is_an_error() {
        let good = LoadResult { asked: 9, fewest: 5, ..LoadResult::default() };
        assert!(good.judge(5).is_ok());
        assert!(LoadResult { failures: vec!["refused".to_owned()], ..good.clone() }.judge(5).is_err());
        assert!(LoadResult { fewest: 4, ..good }.judge(5).is_err());
    }
}
