//! Limits the number of connections.
//!
//! If the limit rejected new connections, a hundred idle connections could block the liveness probe and cause a
//! restart. Instead, the oldest connection is closed: probes and scrapes are short.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of connections. Probes and scrapes need a few.
const MAX_CONNECTIONS: usize = 64;

/// All connections. Clones share their state.
#[derive(Clone, Default)]
pub(crate) struct ConnectionLimit {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    added: u64,
    open: BTreeMap<u64, CancellationToken>,
}

impl ConnectionLimit {
    /// Adds a connection. If the limit is exceeded, the oldest connection is closed.
    pub(crate) fn add(&self) -> LimitedConnection {
        let mut state = self.state.lock();
        if state.open.len() >= MAX_CONNECTIONS
            && let Some((_, oldest)) = state.open.pop_first()
        {
            oldest.cancel();
        }
        state.added += 1;
        let (number, close) = (state.added, CancellationToken::new());
        state.open.insert(number, close.clone());
        LimitedConnection { connection_limit: self.clone(), number, close }
    }
}

/// An open connection. It is removed from the limit when it is dropped.
pub(crate) struct LimitedConnection {
    connection_limit: ConnectionLimit,
    number: u64,
    close: CancellationToken,
}

impl LimitedConnection {
    pub(crate) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

impl Drop for LimitedConnection {
    fn drop(&mut self) {
        self.connection_limit.state.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HTT-7.
    #[test]
    fn oldest_connection_is_closed_when_the_limit_is_exceeded() {
        let connection_limit = ConnectionLimit::default();
        let first = connection_limit.add();
        for _ in 0..1000 {
            drop(connection_limit.add());
        }
        assert!(!first.close.is_cancelled(), "the others were closed");
        let others: Vec<LimitedConnection> = (0..MAX_CONNECTIONS).map(|_| connection_limit.add()).collect();
        assert!(first.close.is_cancelled());
        assert!(others.iter().all(|connection| !connection.close.is_cancelled()));
        drop((first, others));
        assert!(connection_limit.state.lock().open.is_empty());
    }
}
