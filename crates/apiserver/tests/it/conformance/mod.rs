//! What a Kubernetes API server does, as cases that any server can be asked.
//!
//! The in-memory server is trusted only as far as it behaves like the real one. A case is a sentence about that behaviour and
//! a function that holds a server to it through nothing but a `kube::Client`: no look behind the curtain, no clock, no
//! compaction, nothing that a real server would not let a client do. So the same list runs on both, and where they differ
//! ours is wrong.
//!
//! The client must not retry on its own: some cases ask for refusals that an eager client would repeat for minutes.
//!
//! Every case has a namespace of its own, and custom kinds under a group of its own, so that cases can run side by side.

mod builtin;
mod conflicts;
mod custom;
mod discovery;
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
mod stage;
mod subresources;
mod termination;
mod verbs;
mod versions;
mod watches;
mod workloads;

use std::fmt;

use futures::future::BoxFuture;

use crate::cluster;
use stage::Stage;

/// How a case ends: as it should, or with what was different.
type Verdict = Result<(), Difference>;

/// What a server did that the case did not expect.
#[derive(Debug)]
struct Difference(String);

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Difference {
    fn from(error: E) -> Self {
        Self(format!("the request itself failed: {error}"))
    }
}

/// One sentence about an API server.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    run: fn(Stage) -> BoxFuture<'static, Verdict>,
}

/// Makes cases of functions; the name of the function is the sentence.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        pub(super) fn cases() -> Vec<super::Case> {
            vec![$(super::Case { name: stringify!($case), run: |stage| Box::pin($case(stage)) }),+]
        }
    };
}
use cases;

/// Ends a case with a difference unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(super::Difference(format!($($message)+)));
        }
    };
}
use ensure;

/// All cases by topic.
fn topics() -> Vec<(&'static str, Vec<Case>)> {
    vec![
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
    ]
}

/// Holds the server behind this client to one case. Whatever the case made is deleted again.
async fn hold(client: kube::Client, case: Case) -> Verdict {
    let stage = Stage::set(client, case.name).await?;
    let verdict = (case.run)(stage.clone()).await;
    let cleared = stage.clear().await;
    verdict.and(cleared)
}

/// Holds a fresh server in memory to one case, under tokio's paused clock.
async fn hold_in_memory(case: Case) -> Verdict {
    let server = cluster::server();
    tokio::select! {
        biased;
        verdict = hold(cluster::client(&server), case) => verdict,
        never = server.keep_house() => match never {},
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_in_memory_holds_to_every_case() {
    let mut differences = Vec::new();
    for (topic, cases) in topics() {
        for case in cases {
            if let Err(difference) = hold_in_memory(case).await {
                differences.push(format!("{topic}: {}: {difference}", case.name));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn every_topic_has_cases_enough() {
    for (topic, cases) in topics() {
        assert!(cases.len() >= 5, "{topic} has {} cases", cases.len());
    }
}

#[test]
fn no_two_cases_play_in_the_same_place() {
    let places: Vec<_> =
        topics().into_iter().flat_map(|(_, cases)| cases).map(|case| stage::place(case.name)).collect();
    let distinct: std::collections::BTreeSet<_> = places.iter().collect();
    assert_eq!(places.len(), distinct.len());
}
