//! Deltas that were not delivered to the handlers yet.
//!
//! A cache is changed by its reflector and by callers that apply their own writes. Handlers must see both kinds of
//! changes in the order in which they happened. They must not run while the cache is locked, because they read this
//! cache and others, whose handlers read this one. Therefore a change adds its deltas to the outbox while the cache is
//! locked. The first caller after that delivers them, including deltas that others add in the meantime.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::delta::Delta;
use super::store::Deltas;
use crate::Key;

/// Called for every change. A handler only enqueues: it does not block and does no I/O.
pub type Handler<K> = Box<dyn Fn(&Key, &Delta<K>) + Send + Sync>;

pub(super) struct Outbox<K> {
    inside: Mutex<Inside<K>>,
    panics: AtomicU64,
}

struct Inside<K> {
    waiting: VecDeque<(Key, Delta<K>)>,
    readers: Readers<K>,
    delivering: bool,
}

enum Readers<K> {
    /// The reflector has not started: deltas of own writes are kept.
    Expected,
    Present(Arc<[Handler<K>]>),
    /// The reflector has ended: deltas are discarded.
    Left,
}

impl<K> Outbox<K> {
    pub(super) fn new() -> Self {
        let inside = Inside { waiting: VecDeque::new(), readers: Readers::Expected, delivering: false };
        Self { inside: Mutex::new(inside), panics: AtomicU64::new(0) }
    }

    /// Returns the number of panics that were caught in handlers.
    pub(super) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Delivers deltas to these handlers from now on.
    pub(super) fn open(&self, handlers: Vec<Handler<K>>) {
        self.inside.lock().readers = Readers::Present(handlers.into());
        self.deliver();
    }

    /// Discards deltas from now on. Also drops the handlers, which may hold a reference to the cache that owns them.
    pub(super) fn close(&self) {
        let mut inside = self.inside.lock();
        inside.waiting.clear();
        let readers = std::mem::replace(&mut inside.readers, Readers::Left);
        drop(inside);
        drop(readers);
    }

    /// Adds deltas. Called with the cache locked, so that the order of the deltas is the order of the changes.
    pub(super) fn put(&self, deltas: Deltas<K>) {
        let mut inside = self.inside.lock();
        if !matches!(inside.readers, Readers::Left) {
            inside.waiting.extend(deltas);
        }
    }

    /// Delivers all deltas. Called without a lock. If another caller is delivering, that caller delivers these deltas
    /// too.
    pub(super) fn deliver(&self) {
        loop {
            let (handlers, batch) = {
                let mut inside = self.inside.lock();
                let Readers::Present(handlers) = &inside.readers else { return };
                if inside.delivering || inside.waiting.is_empty() {
                    return;
                }
                let handlers = handlers.clone();
                inside.delivering = true;
                (handlers, std::mem::take(&mut inside.waiting))
            };
            let _turn = Turn(self);
            for (key, delta) in &batch {
                for handler in handlers.iter() {
                    // The other handlers and objects of the batch must still be notified.
                    if catch_unwind(AssertUnwindSafe(|| handler(key, delta))).is_err() {
                        self.panics.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(%key, "caught a panic in a handler of watch events");
                    }
                }
            }
        }
    }
}

/// Ends the delivery of this caller, also if a handler panics.
struct Turn<'a, K>(&'a Outbox<K>);

impl<K> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        self.0.inside.lock().delivering = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: u32) -> Deltas<u32> {
        vec![(Key::cluster("k"), Delta::Added(Arc::new(n)))]
    }

    #[test]
    fn change_made_by_a_handler_is_delivered_afterwards() {
        let outbox = Arc::new(Outbox::<u32>::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (again, log) = (outbox.clone(), seen.clone());
        let handler: Handler<u32> = Box::new(move |_, delta| {
            let n = **delta.now().unwrap();
            if n == 1 {
                again.put(number(3));
                again.deliver();
            }
            log.lock().push(n);
        });
        outbox.put([number(1), number(2)].concat());
        outbox.open(vec![handler]);
        assert_eq!(*seen.lock(), [1, 2, 3]);
        outbox.close();
    }

    /// Shows QUE-13, MC-W56.
    #[test]
    fn handler_panic_costs_one_delta_of_one_handler() {
        let outbox = Outbox::<u32>::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let shaky: Handler<u32> = Box::new(|_, delta| assert_ne!(**delta.now().unwrap(), 1, "on purpose"));
        let steady: Handler<u32> = Box::new(move |_, delta| log.lock().push(**delta.now().unwrap()));
        outbox.put([number(1), number(2)].concat());
        outbox.open(vec![shaky, steady]);
        assert_eq!((seen.lock().as_slice(), outbox.panics()), ([1, 2].as_slice(), 1));
    }

    #[test]
    fn a_closed_outbox_keeps_nothing() {
        let outbox = Outbox::<u32>::new();
        outbox.close();
        outbox.put(number(1));
        assert!(outbox.inside.lock().waiting.is_empty());
    }
}
