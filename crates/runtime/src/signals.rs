//! How the process is asked to end, and in which order it does.
//!
//! The first SIGTERM or SIGINT asks everything to stop; a second one ends the process at once, for the operator who does not
//! want to wait. The reference does neither: it dies where it stands and leaves its Lease to time out, so its successor waits
//! 15 seconds for nothing.
//!
//! The order of a shutdown, each step bounded by a patience of its own:
//!
//! 1. Health says *not ready*, workers take no new key, work that has begun ends ([`Tasks::shut_down`] of the controllers).
//! 2. Caches stop watching.
//! 3. The Lease is released ([`crate::lease`]). Not before 1: whoever sees it released may act at once.
//! 4. Events still in the sink are written ([`crate::events`]), the farewell of the leader election among them.
//! 5. The HTTP endpoints close, so that the last scrape sees how it went.
//!
//! [`Tasks::shut_down`]: crate::Tasks::shut_down

use futures::{Stream, StreamExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// From the system: SIGTERM.
    Terminate,
    /// From the terminal: SIGINT.
    Interrupt,
}

impl Signal {
    /// What a process that was ended by this signal exits with, by convention of the shells.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        }
    }
}

/// The signals could not be listened to.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen for signals")]
pub struct SignalsError(#[source] std::io::Error);

/// The signals of this process, from now on. The system's default (to die at once) no longer applies.
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

/// Cancels `stop` at the first signal and returns at the second, with that signal: the caller then exits without waiting for
/// anyone. Never returns otherwise.
pub async fn obey(mut signals: impl Stream<Item = Signal> + Unpin, stop: CancellationToken) -> Signal {
    if let Some(signal) = signals.next().await {
        tracing::info!(?signal, "asked to stop; a second signal ends the process at once");
        stop.cancel();
        if let Some(signal) = signals.next().await {
            tracing::warn!(?signal, "asked again; ending at once");
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
    async fn the_first_signal_asks_and_the_second_ends() {
        let (mut send, signals) = mpsc::channel(2);
        let stop = CancellationToken::new();
        let mut obeying = Box::pin(obey(signals, stop.clone()));
        assert_eq!((&mut obeying).now_or_never(), None);
        assert!(!stop.is_cancelled());

        send.try_send(Signal::Terminate).unwrap();
        assert_eq!((&mut obeying).now_or_never(), None);
        assert!(stop.is_cancelled());

        send.try_send(Signal::Interrupt).unwrap();
        assert_eq!(obeying.await.exit_code(), 130);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_dries_up_ends_nothing() {
        let stop = CancellationToken::new();
        assert_eq!(obey(futures::stream::empty(), stop.clone()).now_or_never(), None);
        assert!(!stop.is_cancelled());
    }
}
