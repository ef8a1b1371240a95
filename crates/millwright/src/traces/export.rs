//! Exports spans to a collector.
//!
//! The state of the collector must not affect the controllers. The controllers put spans into a bounded queue without
//! waiting; if it is full, spans are dropped and counted. One task sends the spans in batches. If the collector does
//! not accept a batch after a few attempts, the batch is dropped and counted. The first dropped batch and the recovery
//! are logged.

use std::sync::Arc;
use std::time::Duration;

use controllers::Decision;
use controllers::decision::{DriverCall, Listen};
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, Opts};
use runtime::metrics::MetricsError;
use runtime::{Backoff, Clock, Exponential, Key, Metrics, Random};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

use super::machine_spans::MachineSpans;
use super::otlp::{self, Service};
use super::span::Span;
use super::transport::{Refusal, Transport};

/// Capacity of the queue.
const CAPACITY: usize = 8192;
/// Maximum number of spans per request.
const BATCH: usize = 512;
/// Time that the first span of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Timeout for one request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of attempts to send a batch.
const MAX_ATTEMPTS: u32 = 4;
/// Delays between the attempts.
const BACKOFF: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_mins(1));
/// Timeout for sending the remaining spans at shutdown. Shorter than the shutdown timeout.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Receives decisions and calls from the controllers.
pub(super) struct Tracer {
    machine_spans: Arc<Mutex<MachineSpans>>,
    queue: Sender<Span>,
    dropped: Dropped,
    clock: Clock,
}

/// Sends spans to the collector.
pub(super) struct Exporter<T> {
    machine_spans: Arc<Mutex<MachineSpans>>,
    queue: Receiver<Span>,
    transport: T,
    service: Service,
    dropped: Dropped,
    sent: IntCounter,
    clock: Clock,
    random: Random,
    /// Number of spans lost since the last successful request.
    lost: u64,
}

/// Counters of dropped spans, by reason.
#[derive(Clone)]
struct Dropped {
    queue_full: IntCounter,
    rejected: IntCounter,
}

/// Returns the two ends of the queue.
pub(super) fn pair<T: Transport>(
    machine_spans: MachineSpans,
    transport: T,
    clock: &Clock,
    random: &Random,
    metrics: &Metrics,
) -> Result<(Arc<Tracer>, Exporter<T>), MetricsError> {
    let register = MetricsError::Register;
    let help = "Number of spans dropped because the queue was full or the collector rejected them.";
    let drops =
        IntCounterVec::new(Opts::new("millwright_traces_dropped_total", help), &["reason"]).map_err(register)?;
    let sent = IntCounter::new("millwright_traces_exported_total", "Number of spans exported to the collector.")
        .map_err(register)?;
    metrics.register(drops.clone())?;
    metrics.register(sent.clone())?;
    let dropped =
        Dropped { queue_full: drops.with_label_values(&["full"]), rejected: drops.with_label_values(&["refused"]) };
    let (machine_spans, (sender, receiver)) = (Arc::new(Mutex::new(machine_spans)), channel(CAPACITY));
    let instance = gethostname::gethostname().to_string_lossy().into_owned();
    let tracer =
        Tracer { machine_spans: machine_spans.clone(), queue: sender, dropped: dropped.clone(), clock: clock.clone() };
    let exporter = Exporter {
        machine_spans,
        queue: receiver,
        transport,
        service: Service { version: env!("CARGO_PKG_VERSION"), instance },
        dropped,
        sent,
        clock: clock.clone(),
        random: random.fork(),
        lost: 0,
    };
    Ok((Arc::new(tracer), exporter))
}

impl Tracer {
    fn enqueue(&self, make: impl FnOnce(&mut MachineSpans) -> Vec<Span>) {
        let (spans, left_out) = {
            let mut machine_spans = self.machine_spans.lock();
            (make(&mut machine_spans), machine_spans.take_left_out())
        };
        self.dropped.queue_full.inc_by(left_out);
        for span in spans {
            if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.queue.try_send(span) {
                self.dropped.queue_full.inc();
            }
        }
    }
}

impl Listen for Tracer {
    fn decided(&self, decision: &Decision) {
        self.enqueue(|machine_spans| machine_spans.decided(decision));
    }

    fn called(&self, call: &DriverCall) {
        self.enqueue(|machine_spans| machine_spans.called(call));
    }

    fn deleted(&self, machine: &Key) {
        let now = self.clock.now();
        self.enqueue(|machine_spans| machine_spans.gone(machine, now));
    }
}

impl<T: Transport> Exporter<T> {
    /// Sends spans until it is stopped, then the remaining spans.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut unsent = Vec::new();
        while !stop.is_cancelled() {
            let batch = next(&mut self.queue, &stop).await;
            // A batch that is being sent at shutdown is sent again. Its span ids are the same, so the collector counts
            // it once.
            tokio::select! {
                biased;
                () = stop.cancelled() => unsent = batch,
                () = self.send(&batch) => {}
            }
        }
        self.flush(unsent).await;
    }

    /// Ends open stages as interrupted, and sends all remaining spans.
    async fn flush(&mut self, unsent: Vec<Span>) {
        let now = self.clock.now();
        let mut left = unsent;
        left.extend(self.machine_spans.lock().interrupted(now));
        self.queue.close();
        while let Ok(span) = self.queue.try_recv() {
            left.push(span);
        }
        let total = left.len();
        let mut done = 0;
        let sending = async {
            for batch in left.chunks(BATCH) {
                self.send(batch).await;
                done += batch.len();
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, sending).await.is_err() {
            self.refused(total - done, "the process is shutting down");
        }
    }

    /// Sends a batch, with retries.
    async fn send(&mut self, batch: &[Span]) {
        if batch.is_empty() {
            return;
        }
        let (body, count) = (otlp::body(&self.service, batch), batch.len());
        let mut backoff = Backoff::new(BACKOFF);
        for tries_left in (0..MAX_ATTEMPTS).rev() {
            let answer = tokio::time::timeout(TIMEOUT, self.transport.send(body.clone())).await;
            let answer = answer.unwrap_or_else(|_| Err(Refusal::Later(format!("no response within {TIMEOUT:?}"))));
            match answer {
                Ok(answer) => return self.accepted(count, &answer),
                Err(Refusal::Later(_)) if tries_left > 0 => {
                    tokio::time::sleep(self.random.stretched(backoff.failed(), 0.5)).await;
                }
                Err(why) => return self.refused(count, &why.to_string()),
            }
        }
    }

    fn accepted(&mut self, count: usize, answer: &[u8]) {
        let count = u64::try_from(count).unwrap_or_default();
        let (unwanted, why) = otlp::rejected(answer).unwrap_or_default();
        let unwanted = unwanted.min(count);
        self.sent.inc_by(count - unwanted);
        if unwanted > 0 {
            self.dropped.rejected.inc_by(unwanted);
            tracing::debug!(spans = unwanted, why, "collector rejected spans");
        }
        if self.lost > 0 {
            tracing::info!(lost = self.lost, "resumed the export of traces");
            self.lost = 0;
        }
    }

    fn refused(&mut self, count: usize, why: &str) {
        let count = u64::try_from(count).unwrap_or_default();
        if self.lost == 0 && count > 0 {
            tracing::warn!(why, "failed to export traces; dropping spans until the collector accepts them");
        }
        self.lost += count;
        self.dropped.rejected.inc_by(count);
    }
}

/// Returns the next spans: as many as arrive within the batch delay, up to the maximum. Returns early at shutdown.
async fn next(queue: &mut Receiver<Span>, stop: &CancellationToken) -> Vec<Span> {
    let mut batch = Vec::new();
    tokio::select! {
        biased;
        () = stop.cancelled() => return batch,
        span = queue.recv() => batch.extend(span),
    }
    let full = tokio::time::sleep(BATCH_DELAY);
    tokio::pin!(full);
    while batch.len() < BATCH {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = &mut full => break,
            span = queue.recv() => match span {
                Some(span) => batch.push(span),
                None => break,
            },
        }
    }
    batch
}

#[cfg(test)]
mod tests;
