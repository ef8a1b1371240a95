//! Changes as Server-Sent Events.
//!
//! Each client first receives the whole state, and then the differences to the last message. The next message is built
//! after the previous one was taken. A slow client therefore receives fewer and larger messages, and no messages pile
//! up.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use controllers::state::ClusterState;
use futures::Stream;
use futures::stream::unfold;
use hyper::body::Frame;
use inspect::picture::{self, Picture};
use serde_json::{Map, Value, json};

use super::{View, snapshot};

/// Interval of checks for changes.
const INTERVAL: Duration = Duration::from_millis(250);
/// Number of checks without changes after which a comment is sent, so that closed connections are detected.
const CHECKS_PER_COMMENT: u32 = 60;
/// Maximum number of pods that are listed per Node.
const MAX_PODS: usize = 12;

/// What was sent to one client.
struct Sent {
    picture: Picture,
    /// What is not about single Machines: drains, calls, leadership.
    rest: Map<String, Value>,
    /// Number of the last decision.
    decision: u64,
    first: bool,
}

/// Returns all events from now on.
pub(super) fn stream(view: View) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let sent = Sent { picture: Picture::default(), rest: Map::new(), decision: 0, first: true };
    unfold((view, sent), |(view, mut sent)| async move {
        let mut text = sent.next(&view);
        for _ in 0..CHECKS_PER_COMMENT {
            if text.is_some() {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
            text = sent.next(&view);
        }
        let text = text.unwrap_or_else(|| ": no change\n\n".to_owned());
        Some((Ok(Frame::data(Bytes::from(text))), (view, sent)))
    })
}

impl Sent {
    /// Returns the next message, if anything has changed.
    fn next(&mut self, view: &View) -> Option<String> {
        let picture = picture::of(&snapshot::objects(view));
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
        let on_node = pods.iter().find(|(node, _)| Some(node) == drain.node.as_ref()).map(|(_, pods)| pods);
        let mut named: Vec<String> = on_node
            .into_iter()
            .flatten()
            .map(|pod| format!("{}/{}", api::Object::namespace(&**pod), api::Object::name(&**pod)))
            .collect();
        named.sort();
        named.truncate(MAX_PODS);
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
