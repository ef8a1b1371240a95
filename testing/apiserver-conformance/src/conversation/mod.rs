//! Conversations: requests that a seeded generator made up, with what a real server answered.
//!
//! Cases that people write hold a server to what people thought of. A generator thinks of the rest: a deletion with an old version of
//! an object that is already leaving, a patch that empties a list of finalizers and misspells a field. Nobody knows the right answer
//! to these, so a real server is asked, and what it says is kept in `recorded/`. Every server is then held to it, word by word.
//!
//! `conformance --kubeconfig … --compare 1..200` asks a real server and the one in memory about new seeds, and writes down where
//! they differ; such a conversation stays as a regression test.

mod generator;
mod topic;
mod translation;
mod values;

use std::fmt;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use topic::cases;

use crate::fixture::{Answer, Fixture};
use crate::{CaseResult, Difference, ServerUnderTest, ensure};
use generator::Generator;
use translation::Translation;

/// How many differing answers are shown.
const SHOWN: usize = 3;

/// What was said, in words that every server shares.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Conversation {
    /// Where the requests come from.
    pub seed: u64,
    exchanges: Vec<Exchange>,
}

/// A request, and what came back.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Exchange {
    ask: Request,
    code: u16,
    answer: Value,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Request {
    method: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
    #[serde(default = "plain_json", skip_serializing_if = "is_plain_json")]
    sort: String,
}

fn plain_json() -> String {
    "application/json".to_owned()
}

fn is_plain_json(sort: &str) -> bool {
    sort == "application/json"
}

impl Conversation {
    /// Asks a server what the generator comes up with.
    pub async fn with(server_under_test: &ServerUnderTest, seed: u64, length: usize) -> Result<Self, Difference> {
        let fixture = Fixture::set(server_under_test, &format!("seed-{seed}")).await?;
        let outcome = Self::held_on(&fixture, seed, length).await;
        fixture.clear().await?;
        outcome
    }

    async fn held_on(fixture: &Fixture, seed: u64, length: usize) -> Result<Self, Difference> {
        fixture.define_version(&values::version()).await?;
        let mut translation = Translation::of(fixture.namespace());
        let mut generator = Generator::seeded(seed);
        let mut exchanges = Vec::new();
        for _ in 0..length {
            let ask = generator.request();
            let Answer { code, body } = ask.send(fixture, &translation).await?;
            let answer = translation.shared(&body);
            generator.hear(&ask, &answer);
            exchanges.push(Exchange { ask, code, answer });
        }
        Ok(Self { seed, exchanges })
    }

    /// As it is kept: an exchange a line, so that a change of one is a change of one line.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let exchanges = self.exchanges.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        Ok(format!("{{\"seed\": {}, \"exchanges\": [\n{}\n]}}\n", self.seed, exchanges.join(",\n")))
    }

    /// Holds another server to the same conversation.
    pub async fn repeat_on(&self, server_under_test: &ServerUnderTest) -> CaseResult {
        let fixture = Fixture::set(server_under_test, &format!("seed-{}", self.seed)).await?;
        let outcome = self.repeat(&fixture).await;
        outcome.and(fixture.clear().await)
    }

    async fn repeat(&self, fixture: &Fixture) -> CaseResult {
        fixture.define_version(&values::version()).await?;
        let mut translation = Translation::of(fixture.namespace());
        let mut differences = Vec::new();
        for (number, expected) in self.exchanges.iter().enumerate() {
            let got = expected.ask.send(fixture, &translation).await?;
            let answer = translation.shared(&got.body);
            if got.code != expected.code || answer != expected.answer {
                differences.push(format!("request {number}: {expected}\n    got      {} {answer}", got.code));
            }
        }
        // One that differs makes later ones differ, so the first few say it all.
        let first: Vec<_> = differences.iter().take(SHOWN).cloned().collect();
        ensure!(differences.is_empty(), "{} answers differ:\n  {}", differences.len(), first.join("\n  "));
        Ok(())
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ask: Request { method, path, body, sort }, code, answer } = self;
        let body = body.as_ref().map(Value::to_string).unwrap_or_default();
        write!(f, "{method} {path} {sort} {body}\n    expected {code} {answer}")
    }
}

impl Request {
    async fn send(&self, fixture: &Fixture, translation: &Translation) -> Result<Answer, Difference> {
        let method: Method = self.method.parse()?;
        let body = self.body.as_ref().map(|body| translation.own(&body.to_string()));
        let Answer { code, body } = fixture.call(method, &translation.own(&self.path), body, &self.sort).await?;
        Ok(Answer { code, body: without_bystanders(body) })
    }
}

/// Without what a real server's controllers put into every namespace.
fn without_bystanders(mut answer: Value) -> Value {
    if let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) {
        items.retain(|item| item["metadata"]["name"] != json!("kube-root-ca.crt"));
    }
    answer
}
