//! Deltas on their way to the handlers.
//!
//! Two things change a cache: its reflector and whoever writes. Handlers must see both kinds of change in the order in which
//! they happened, yet must not run while the cache is locked: they look things up, also in other caches, whose handlers
//! look things up here. So a change leaves its deltas here while the cache is still locked, and whoever comes first
//! delivers them afterwards, also those that others leave meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::delta::Delta;
use super::store::Deltas;
use crate::Key;

/// Told of every change. It only enqueues: no waiting, no I/O.
pub type Handler<K> = Box<dyn Fn(&Key, &Delta<K>) + Send + Sync>;

pub(super) struct Outbox<K> {
    inside: Mutex<Inside<K>>,
}

struct Inside<K> {
    waiting: VecDeque<(Key, Delta<K>)>,
    readers: Readers<K>,
    delivering: bool,
}

enum Readers<K> {
    /// The reflector has not started: what our own writes change waits.
    Expected,
    Present(Arc<[Handler<K>]>),
    /// The reflector has ended: nobody acts any more.
    Left,
}

impl<K> Outbox<K> {
    pub(super) fn new() -> Self {
        Self { inside: Mutex::new(Inside { waiting: VecDeque::new(), readers: Readers::Expected, delivering: false }) }
    }

    /// From now on deltas go to these.
    pub(super) fn open(&self, handlers: Vec<Handler<K>>) {
        self.inside.lock().readers = Readers::Present(handlers.into());
        self.deliver();
    }

    /// From now on deltas go nowhere. Also lets go of the handlers, which may hold the cache that holds them.
    pub(super) fn close(&self) {
        let mut inside = self.inside.lock();
        inside.waiting.clear();
        let readers = std::mem::replace(&mut inside.readers, Readers::Left);
        drop(inside);
        drop(readers);
    }

    /// Called with the cache locked, so that the order here is the order of the changes.
    pub(super) fn put(&self, deltas: Deltas<K>) {
        let mut inside = self.inside.lock();
        if !matches!(inside.readers, Readers::Left) {
            inside.waiting.extend(deltas);
        }
    }

    /// Called with nothing locked. If someone else is delivering, that one will deliver ours too.
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
                    handler(key, delta);
                }
            }
        }
    }
}

/// Gives the turn back, also when a handler panics.
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
    fn a_handler_that_causes_a_change_sees_it_after_the_one_it_works_on() {
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

    #[test]
    fn a_closed_outbox_keeps_nothing() {
        let outbox = Outbox::<u32>::new();
        outbox.close();
        outbox.put(number(1));
        assert!(outbox.inside.lock().waiting.is_empty());
    }
}
