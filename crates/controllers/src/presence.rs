//! What a cache answers, in the planner's words.

use std::sync::Arc;

use planner::Presence;
use runtime::cache::Lookup;

/// The planner is not told what an object that cannot be read looks like: it must not plan on it.
pub(crate) fn presence<K>(found: Lookup<K>) -> Presence<Arc<K>> {
    match found {
        Lookup::Absent => Presence::Absent,
        Lookup::Present(object) => Presence::Present(object),
        Lookup::Undecodable(_) => Presence::Undecodable,
    }
}
