//! Termination signals and graceful shutdown.
//!
//! The first SIGTERM or SIGINT starts a graceful shutdown; the second one ends the process immediately. MCM exits on the first
//! signal without releasing its Lease, so its successor waits 15 seconds.
//!
//! Order of a shutdown. Each step has its own timeout:
//!
//! 1. The readiness probe fails, workers take no new keys, and reconciles in progress finish ([`Tasks::shut_down`] of the
//!    controllers).
//! 2. Caches stop watching.
//! 3. The Lease is released ([`crate::lease`]). Not before step 1, because another process may then lead immediately.
//! 4. Queued Events are written ([`crate::events`]), including that of the leader election.
//! 5. The HTTP endpoints close, so that a last scrape is possible.
//!
//! [`Tasks::shut_down`]: crate::Tasks::shut_down

use futures::{Stream, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A termination signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

impl Signal {
    /// Returns the exit code of a process that this signal ended, by convention of shells.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        }
    }
}

/// The signal handlers could not be installed.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen for signals")]
pub struct SignalsError(#[source] std::io::Error);

/// Returns the termination signals of this process. Replaces the default action, which ends the process immediately.
pub fn listen() -> Result<impl Stream<Item = Signal> + Send + Unpin + use<>, SignalsError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(SignalsError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalsError)?;
    Ok(futures::stream::poll_fn(move |context| {
        if let std::task::Poll::Ready(signal) = terminate.poll_recv(context) {
            return std::task::Poll::Ready(signal.map(|()| Signal::Terminate));
        }
        interrupt.poll_recv(context).map(|signal| signal.map(|()| Signal::Interrupt))
    }))
}

/// Cancels `stop` on the first signal and returns the second one. The caller then exits immediately. Otherwise it never
/// returns.
pub async fn handle(mut signals: impl Stream<Item = Signal> + Unpin, stop: CancellationToken) -> Signal {
    if let Some(signal) = signals.next().await {
        tracing::info!(?signal, "received signal; shutting down");
        stop.cancel();
        if let Some(signal) = signals.next().await {
            tracing::warn!(?signal, "received second signal; exiting immediately");
            return signal;
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::channel::mpsc;

    /// Shows EVT-6.
    #[tokio::test(start_paused = true)]
    async fn first_signal_starts_shutdown_and_second_returns() {
        let (mut send, signals) = mpsc::channel(2);
        let stop = CancellationToken::new();
        let mut handling = Box::pin(handle(signals, stop.clone()));
        assert_eq!((&mut handling).now_or_never(), None);
        assert!(!stop.is_cancelled());

        send.try_send(Signal::Terminate).unwrap();
        assert_eq!((&mut handling).now_or_never(), None);
        assert!(stop.is_cancelled());

        send.try_send(Signal::Interrupt).unwrap();
        assert_eq!(handling.await.exit_code(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_the_signal_stream_has_no_effect() {
        let stop = CancellationToken::new();
        assert_eq!(handle(futures::stream::empty(), stop.clone()).now_or_never(), None);
        assert!(!stop.is_cancelled());
    }
}
