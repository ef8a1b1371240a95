//! Holding a server to many cases at once.
//!
//! Most of a case is waiting: for a custom kind to be served, for a watch to stay silent. So cases run side by side, as many as a
//! server on two cores takes without making the others late.

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use crate::fixture::Fixture;
use crate::{CaseResult, Difference, Outcome, Report, ServerUnderTest};

/// How many cases are under way at once.
const AT_ONCE: usize = 12;
/// Longer than any case takes, also on a busy machine: a case that hangs must not hold up the others for good.
const LONGEST: Duration = Duration::from_mins(2);

/// One sentence about an API server.
#[derive(Clone, Copy)]
pub struct Case {
    /// The sentence.
    pub name: &'static str,
    pub(crate) run: fn(Fixture) -> BoxFuture<'static, CaseResult>,
}

/// Cases about one thing.
pub struct Topic {
    /// What they are about.
    pub name: &'static str,
    /// The cases.
    pub cases: Vec<Case>,
}

impl Case {
    /// Holds the server to this case. Whatever the case made is deleted again.
    pub async fn hold(&self, server_under_test: &ServerUnderTest) -> CaseResult {
        let fixture = Fixture::set(server_under_test, self.name).await?;
        let result = timeout(LONGEST, (self.run)(fixture.clone())).await;
        let cleared = fixture.clear().await;
        result.unwrap_or_else(|_| Err(Difference::new(format!("not done after {LONGEST:?}")))).and(cleared)
    }
}

/// Holds the server to every case whose topic or name contains `only`, and tells each outcome as it comes.
pub async fn run_all(server_under_test: &ServerUnderTest, only: &str, tell: impl Fn(&Outcome)) -> Report {
    let wanted = crate::topics().into_iter().flat_map(|topic| {
        let whole = topic.name.contains(only);
        topic
            .cases
            .into_iter()
            .filter(move |case| whole || case.name.contains(only))
            .map(move |case| (topic.name, case))
    });
    let held = futures::stream::iter(wanted).map(|(topic, case)| async move {
        let begin = Instant::now();
        let difference = case.hold(server_under_test).await.err().map(|difference| difference.to_string());
        Outcome { topic, name: case.name.to_owned(), difference, took: begin.elapsed() }
    });
    let outcomes = server_under_test.keeping_house(held.buffer_unordered(AT_ONCE).inspect(tell).collect()).await;
    server_under_test.give_back().await;
    Report::of(outcomes)
}
