//! Checks how often an object is reconciled.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

const WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// With more reconciles per second, an object is reconciled in a loop.
const MAX: u32 = 100;

/// For each object, the start of the current second and the number of reconciles in it.
#[derive(Debug, Default)]
pub(super) struct Reconciles(BTreeMap<String, (Timestamp, u32)>);

impl Reconciles {
    /// Records a reconcile and checks the rate.
    pub(super) fn note(&mut self, object: &str, now: Timestamp) -> Option<String> {
        let Some((begin, count)) = self.0.get_mut(object) else {
            // Removes the entries of objects that are no longer reconciled.
            self.0.retain(|_, (begin, _)| now.duration_since(*begin) <= WINDOW);
            self.0.insert(object.to_owned(), (now, 1));
            return None;
        };
        if now.duration_since(*begin) >= WINDOW {
            (*begin, *count) = (now, 0);
        }
        *count += 1;
        (*count > MAX).then(|| format!("{object} was reconciled {count} times within a second"))
    }
}
