//! What has changed, as Server-Sent Events.
//!
//! Each listener is sent everything once and then what differs from what it was last sent. The next message is put together when the one before has
//! been taken, so a slow listener gets fewer and larger ones, and nothing piles up.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use controllers::state::ClusterState;
use futures::Stream;
use futures::stream::unfold;
use hyper::body::Frame;
use inspect::picture::{self, Picture};
use serde_json::{Map, Value, json};

use super::{View, sight};

/// How often is looked: as often as an eye follows.
const EVERY: Duration = Duration::from_millis(250);
/// After so many looks that showed nothing new a comment is sent, so that a listener that is gone is noticed.
const QUIET: u32 = 60;
/// How many pods of a node are named.
const PODS_NAMED: usize = 12;

/// What one listener has been sent.
struct Told {
    picture: Picture,
    /// What is not about single machines: drains, calls, who leads.
    rest: Map<String, Value>,
    /// The number of the last decision.
    decision: u64,
    first: bool,
}

/// Everything from now on.
pub(super) fn stream(view: View) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let told = Told { picture: Picture::default(), rest: Map::new(), decision: 0, first: true };
    unfold((view, told), |(view, mut told)| async move {
        let mut text = told.next(&view);
        for _ in 0..QUIET {
            if text.is_some() {
                break;
            }
            tokio::time::sleep(EVERY).await;
            text = told.next(&view);
        }
        let text = text.unwrap_or_else(|| ": nothing new\n\n".to_owned());
        Some((Ok(Frame::data(Bytes::from(text))), (view, told)))
    })
}

impl Told {
    /// The next message, if there is anything to say.
    fn next(&mut self, view: &View) -> Option<String> {
        let picture = picture::of(&sight::objects(view));
        let (rest, decisions) = (rest(view), view.timeline.after(self.decision));
        let changes = picture::changes(&self.picture, &picture);
        if !self.first && changes.is_empty() && rest == self.rest && decisions.is_empty() {
            return None;
        }
        let mut message = match serde_json::to_value(&changes) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        message.insert("at".to_owned(), json!(view.clock.now()));
        if self.first {
            message.insert("namespace".to_owned(), json!(picture.namespace));
            message.insert("pools".to_owned(), json!(picture.pools));
        }
        message.extend(rest.iter().filter(|(name, value)| self.rest.get(*name) != Some(*value)).map(own));
        if let Some(last) = decisions.last() {
            self.decision = last.number;
            message.insert("decisions".to_owned(), json!(decisions));
        }
        let event = if self.first { "everything" } else { "change" };
        (self.picture, self.rest, self.first) = (picture, rest, false);
        Some(format!("event: {event}\ndata: {}\n\n", Value::Object(message)))
    }
}

fn own((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

fn rest(view: &View) -> Map<String, Value> {
    let state = ClusterState::of(&view.cluster);
    let pods = view.cluster.machine_controller().drains().map(controllers::drain::Drains::pods).unwrap_or_default();
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    let drains = state.drains.iter().map(|drain| {
        let here = pods.iter().find(|(node, _)| Some(node) == drain.node.as_ref()).map(|(_, pods)| pods);
        let mut named: Vec<String> = here
            .into_iter()
            .flatten()
            .map(|pod| format!("{}/{}", api::Object::namespace(&**pod), api::Object::name(&**pod)))
            .collect();
        named.sort();
        named.truncate(PODS_NAMED);
        json!({
            "machine": name(&drain.machine), "node": drain.node, "since": drain.since, "ahead": drain.ahead,
            "count": drain.pods, "pods": named,
        })
    });
    let calls = state.limiter.calls.iter().map(|call| json!({ "machine": name(&call.machine), "call": call.call }));
    let waiting: usize = state.limiter.credentials.iter().map(|credential| credential.waiting).sum();
    let mut rest = Map::new();
    rest.insert("leads".to_owned(), json!(view.leadership.check().is_ok()));
    rest.insert("frozen".to_owned(), json!(state.frozen));
    rest.insert("drains".to_owned(), drains.collect());
    rest.insert("calls".to_owned(), calls.collect());
    rest.insert("waiting".to_owned(), json!(waiting));
    rest
}
