//! Waiting, sending, trying again, letting go.
//!
//! Controllers must not notice whether anybody collects their traces. So they hand a span over and go on: into a queue of fixed
//! length, and where there is no room it is dropped and counted. One task takes spans out, many at a time, and sends them. A collector
//! that does not answer is tried a few times; then what was to be sent is dropped and counted too. The log says when that begins and
//! when it is over, not each time.

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

/// How many spans wait at most.
const ROOM: usize = 8192;
/// How many are sent at once.
const BATCH: usize = 512;
/// How long the first of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a batch is sent before it is given up.
const TRIES: u32 = 4;
/// The pauses between them.
const PAUSES: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_mins(1));
/// How long the end may take. Shorter than the patience of a shutdown.
const FAREWELL: Duration = Duration::from_secs(3);

/// What listens to controllers.
pub(super) struct Tracer {
    machine_spans: Arc<Mutex<MachineSpans>>,
    queue: Sender<Span>,
    dropped: Dropped,
    clock: Clock,
}

/// What sends spans away.
pub(super) struct Exporter<T> {
    machine_spans: Arc<Mutex<MachineSpans>>,
    queue: Receiver<Span>,
    transport: T,
    service: Service,
    dropped: Dropped,
    sent: IntCounter,
    clock: Clock,
    random: Random,
    /// Since when nothing got through, in batches.
    lost: u64,
}

/// Spans that nobody will see, by why.
#[derive(Clone)]
struct Dropped {
    for_want_of_room: IntCounter,
    not_taken: IntCounter,
}

/// The two ends of the queue.
pub(super) fn pair<T: Transport>(
    machine_spans: MachineSpans,
    transport: T,
    clock: &Clock,
    random: &Random,
    metrics: &Metrics,
) -> Result<(Arc<Tracer>, Exporter<T>), MetricsError> {
    let register = MetricsError::Register;
    let help = "Spans that were dropped: for want of room, or because the collector did not take them.";
    let drops =
        IntCounterVec::new(Opts::new("millwright_traces_dropped_total", help), &["reason"]).map_err(register)?;
    let sent =
        IntCounter::new("millwright_traces_exported_total", "Spans that the collector took.").map_err(register)?;
    metrics.register(drops.clone())?;
    metrics.register(sent.clone())?;
    let dropped = Dropped {
        for_want_of_room: drops.with_label_values(&["full"]),
        not_taken: drops.with_label_values(&["refused"]),
    };
    let (machine_spans, (entrance, exit)) = (Arc::new(Mutex::new(machine_spans)), channel(ROOM));
    let instance = gethostname::gethostname().to_string_lossy().into_owned();
    let tracer = Tracer {
        machine_spans: machine_spans.clone(),
        queue: entrance,
        dropped: dropped.clone(),
        clock: clock.clone(),
    };
    let exporter = Exporter {
        machine_spans,
        queue: exit,
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
    fn hand_over(&self, make: impl FnOnce(&mut MachineSpans) -> Vec<Span>) {
        let (spans, left_out) = {
            let mut machine_spans = self.machine_spans.lock();
            (make(&mut machine_spans), machine_spans.take_left_out())
        };
        self.dropped.for_want_of_room.inc_by(left_out);
        for span in spans {
            if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.queue.try_send(span) {
                self.dropped.for_want_of_room.inc();
            }
        }
    }
}

impl Listen for Tracer {
    fn decided(&self, decision: &Decision) {
        self.hand_over(|machine_spans| machine_spans.decided(decision));
    }

    fn called(&self, call: &DriverCall) {
        self.hand_over(|machine_spans| machine_spans.called(call));
    }

    fn gone(&self, machine: &Key) {
        let now = self.clock.now();
        self.hand_over(|machine_spans| machine_spans.gone(machine, now));
    }
}

impl<T: Transport> Exporter<T> {
    /// Sends until asked to stop, then what is left.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut unsent = Vec::new();
        while !stop.is_cancelled() {
            let batch = next(&mut self.queue, &stop).await;
            // Whatever was on its way when we are asked to stop is sent once more: its ids are the same, so it counts once.
            tokio::select! {
                biased;
                () = stop.cancelled() => unsent = batch,
                () = self.send(&batch) => {}
            }
        }
        self.farewell(unsent).await;
    }

    /// Tells what is open as interrupted, and sends whatever waits.
    async fn farewell(&mut self, unsent: Vec<Span>) {
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
        if tokio::time::timeout(FAREWELL, sending).await.is_err() {
            self.refused(total - done, "the process ends");
        }
    }

    /// Sends a batch, a few times if need be.
    async fn send(&mut self, batch: &[Span]) {
        if batch.is_empty() {
            return;
        }
        let (body, count) = (otlp::body(&self.service, batch), batch.len());
        let mut backoff = Backoff::new(PAUSES);
        for tries_left in (0..TRIES).rev() {
            let answer = tokio::time::timeout(TIMEOUT, self.transport.send(body.clone())).await;
            let answer = answer.unwrap_or_else(|_| Err(Refusal::Later(format!("no answer within {TIMEOUT:?}"))));
            match answer {
                Ok(answer) => return self.taken(count, &answer),
                Err(Refusal::Later(_)) if tries_left > 0 => {
                    tokio::time::sleep(self.random.stretched(backoff.failed(), 0.5)).await;
                }
                Err(why) => return self.refused(count, &why.to_string()),
            }
        }
    }

    fn taken(&mut self, count: usize, answer: &[u8]) {
        let count = u64::try_from(count).unwrap_or_default();
        let (unwanted, why) = otlp::rejected(answer).unwrap_or_default();
        let unwanted = unwanted.min(count);
        self.sent.inc_by(count - unwanted);
        if unwanted > 0 {
            self.dropped.not_taken.inc_by(unwanted);
            tracing::debug!(spans = unwanted, why, "the collector did not want some spans");
        }
        if self.lost > 0 {
            tracing::info!(lost = self.lost, "the collector takes traces again");
            self.lost = 0;
        }
    }

    fn refused(&mut self, count: usize, why: &str) {
        let count = u64::try_from(count).unwrap_or_default();
        if self.lost == 0 && count > 0 {
            tracing::warn!(why, "traces are lost until the collector takes them; machines are not affected");
        }
        self.lost += count;
        self.dropped.not_taken.inc_by(count);
    }
}

/// The next spans: as many as come within a while, up to a batch; fewer when asked to stop.
async fn next(queue: &mut Receiver<Span>, stop: &CancellationToken) -> Vec<Span> {
    let mut batch = Vec::new();
    tokio::select! {
        biased;
        () = stop.cancelled() => return batch,
        span = queue.recv() => batch.extend(span),
    }
    let full = tokio::time::sleep(LINGER);
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
