//! How often an object is reconciled.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

const WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// Above this an object is reconciled in a loop.
const MOST: u32 = 100;

/// The reconciles of each object in the second that began last.
#[derive(Debug, Default)]
pub(super) struct Reconciles(BTreeMap<String, (Timestamp, u32)>);

impl Reconciles {
    /// An object was reconciled; what is wrong with that.
    pub(super) fn note(&mut self, what: &str, now: Timestamp) -> Option<String> {
        let Some((begin, count)) = self.0.get_mut(what) else {
            // Objects come and go.
            self.0.retain(|_, (begin, _)| now.duration_since(*begin) <= WINDOW);
            self.0.insert(what.to_owned(), (now, 1));
            return None;
        };
        if now.duration_since(*begin) >= WINDOW {
            (*begin, *count) = (now, 0);
        }
        *count += 1;
        (*count > MOST).then(|| format!("{what} was reconciled {count} times within a second"))
    }
}
