//! The cases, a file for each topic.

mod builtin;
mod conflicts;
mod custom;
mod discovery;
mod documents;
mod errors;
mod eviction;
mod finalizers;
mod garbage;
mod generation;
mod metadata;
mod paging;
mod patches;
mod pods;
mod preconditions;
mod scale;
mod selectors;
mod strategic;
mod subresources;
mod tables;
mod termination;
mod verbs;
mod versions;
mod watches;
mod workloads;

use crate::{Topic, conversation};

/// All cases by topic.
pub fn topics() -> Vec<Topic> {
    [
        ("verbs", verbs::cases()),
        ("conflicts", conflicts::cases()),
        ("preconditions", preconditions::cases()),
        ("patches", patches::cases()),
        ("selectors", selectors::cases()),
        ("paging", paging::cases()),
        ("watches", watches::cases()),
        ("finalizers", finalizers::cases()),
        ("generation", generation::cases()),
        ("subresources", subresources::cases()),
        ("custom kinds", custom::cases()),
        ("error bodies", errors::cases()),
        ("built-in kinds", builtin::cases()),
        ("metadata", metadata::cases()),
        ("versions of reads", versions::cases()),
        ("discovery", discovery::cases()),
        ("pods", pods::cases()),
        ("eviction", eviction::cases()),
        ("scale", scale::cases()),
        ("garbage collection", garbage::cases()),
        ("workloads and storage", workloads::cases()),
        ("ends of namespaces", termination::cases()),
        ("strategic patches", strategic::cases()),
        ("tables", tables::cases()),
        ("documents", documents::cases()),
        ("conversations", conversation::cases()),
    ]
    .map(|(name, cases)| Topic { name, cases })
    .into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::place;

    /// Shows TWO-1, SRV-1.
    #[test]
    fn every_topic_has_cases_enough() {
        for topic in topics() {
            assert!(topic.cases.len() >= 5, "{} has {} cases", topic.name, topic.cases.len());
        }
    }

    /// Shows TWO-1, SRV-1.
    #[test]
    fn no_two_cases_play_in_the_same_place() {
        let places: Vec<_> =
            topics().into_iter().flat_map(|topic| topic.cases).map(|case| place("run", case.name)).collect();
        let distinct: BTreeSet<_> = places.iter().collect();
        assert_eq!(places.len(), distinct.len());
    }
}
