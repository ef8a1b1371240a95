//! How many may be connected at once.
//!
//! A limit that turns newcomers away would let a hundred idle connections keep the liveness probe out, and so get the process
//! restarted. So it is the oldest who has to go: a probe and a scrape are over in a moment, whoever is still there was not in need.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Connections at once. Probes and scrapes need a handful.
const AT_ONCE: usize = 64;

/// Everybody who is connected. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ConnectionLimit {
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    arrivals: u64,
    here: BTreeMap<u64, CancellationToken>,
}

impl ConnectionLimit {
    /// One more is here; if that is one too many, the oldest is asked to leave.
    pub(crate) fn arrive(&self) -> LimitedConnection {
        let mut inside = self.inside.lock();
        if inside.here.len() >= AT_ONCE
            && let Some((_, oldest)) = inside.here.pop_first()
        {
            oldest.cancel();
        }
        inside.arrivals += 1;
        let (number, leave) = (inside.arrivals, CancellationToken::new());
        inside.here.insert(number, leave.clone());
        LimitedConnection { connection_limit: self.clone(), number, leave }
    }
}

/// Somebody who is connected, until it is dropped.
pub(crate) struct LimitedConnection {
    connection_limit: ConnectionLimit,
    number: u64,
    leave: CancellationToken,
}

impl LimitedConnection {
    pub(crate) async fn asked_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for LimitedConnection {
    fn drop(&mut self) {
        self.connection_limit.inside.lock().here.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows HTT-7.
    #[test]
    fn the_oldest_goes_when_there_are_too_many_and_who_left_is_not_counted() {
        let connection_limit = ConnectionLimit::default();
        let first = connection_limit.arrive();
        for _ in 0..1000 {
            drop(connection_limit.arrive());
        }
        assert!(!first.leave.is_cancelled(), "the others had left");
        let others: Vec<LimitedConnection> = (0..AT_ONCE).map(|_| connection_limit.arrive()).collect();
        assert!(first.leave.is_cancelled());
        assert!(others.iter().all(|connection| !connection.leave.is_cancelled()));
        drop((first, others));
        assert!(connection_limit.inside.lock().here.is_empty());
    }
}
