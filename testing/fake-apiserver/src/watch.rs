//! Watches: the log, read forward, as one client wants to see it.
//!
//! A watch holds no queue of its own. It holds a place in the store's log, and reads on from there whenever it is polled; so a
//! slow client costs nothing, and one that is too slow finds its place compacted and is told to begin anew. Whether a change
//! is an appearance, a change or a disappearance depends on the selection: an object that stops matching is gone for this
//! client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::faults::{After, WatchFault};
use crate::observer::Observation;
use crate::render::{self, Event, Form};
use crate::resource::Resource;
use crate::server::Shared;
use crate::state::State;
use crate::store::{Change, ChangeKind, Compacted};
use crate::verbs::{Call, Selection};

/// How many events are sent in one piece.
const BATCH: usize = 128;

/// How a watch was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    resource: Arc<Resource>,
    selection: Selection,
    form: Form,
    epoch: u64,
    cursor: u64,
    initial: VecDeque<Arc<Value>>,
    end_of_initial: EndOfInitial,
    bookmarks: bool,
    timeout: Duration,
    changed: Arc<Notify>,
    refusal: Option<Failure>,
}

/// Whether the client is told when it has seen what existed at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndOfInitial {
    Silent,
    Pending,
}

impl Request {
    /// Finds the place in the log from which a watch begins.
    pub(crate) fn open(state: &mut State, call: &Call, form: Form, shortest: Duration) -> Result<Self, Failure> {
        let selection = Selection::of(call)?;
        call.query.version_match(true)?;
        let wanted = call.query.version().map_err(Failure::unexpected)?;
        let current = state.store.revision();
        let send_initial = call.query.flag("sendInitialEvents");
        let bookmarks = call.query.flag("allowWatchBookmarks") == Some(true);
        // Too late to refuse: the answer has begun when the reference notices, so it is said as an event.
        let too_large = send_initial == Some(true) && wanted > current;
        let kind = call.resource.stored_as();
        // Without a version, or with version 0, a watch begins with what is there; that was so before it could be asked for.
        let begins_with_state = send_initial.unwrap_or(wanted == 0);
        let (cursor, initial) = if begins_with_state {
            let view = state.store.view(kind, current, selection.namespace.as_deref(), None).unwrap_or_default();
            let matching = view.into_iter().filter(|(_, object)| selection.matches(object));
            (current, matching.map(|(_, object)| object.clone()).collect())
        } else {
            (if wanted == 0 { current } else { wanted }, VecDeque::new())
        };
        let timeout = match call.query.number("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()) {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            // Spread, so that watches that were opened together do not end together.
            _ => shortest + Duration::from_secs(state.below(shortest.as_secs())),
        };
        let asks_for_end = send_initial == Some(true) && bookmarks;
        Ok(Self {
            epoch: state.store.epoch(),
            changed: state.store.changed(kind),
            resource: call.resource.clone(),
            selection,
            form,
            cursor,
            initial,
            end_of_initial: if asks_for_end { EndOfInitial::Pending } else { EndOfInitial::Silent },
            bookmarks,
            timeout,
            refusal: too_large.then(|| Failure::version_too_large(wanted, current)),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Reading,
    /// The past was rewritten or the kind is gone: the connection ends, as it does when the server is restarted.
    Over,
}

impl Request {
    /// Reads the log forward, up to `room` events in all.
    fn advance(
        &mut self,
        state: &State,
        kind: &str,
        room: usize,
        events: &mut Vec<Event>,
    ) -> Result<Progress, Compacted> {
        if state.store.epoch() != self.epoch || state.catalog.stored_as(kind).is_none() {
            return Ok(Progress::Over);
        }
        for change in state.store.changes_after(kind, self.cursor)? {
            if events.len() >= room {
                return Ok(Progress::Reading);
            }
            self.cursor = change.revision;
            events.extend(seen_by(&self.selection, change));
        }
        // Whatever happened to other kinds is behind this watch too; a client in the future stays there.
        self.cursor = self.cursor.max(state.store.revision());
        Ok(Progress::Reading)
    }
}

/// Counts a watch for as long as it is open.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A watch that is going on.
#[derive(Debug)]
pub(crate) struct Watch {
    shared: Arc<Shared>,
    request: Request,
    kind: String,
    agent: String,
    api_version: String,
    deadline: Instant,
    next_bookmark: Instant,
    fault: Option<(WatchFault, Trigger)>,
    over: bool,
    _open: Open,
}

#[derive(Clone, Copy, Debug)]
enum Trigger {
    EventsLeft(u64),
    At(Instant),
}

/// The connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Watch {
    pub(crate) fn new(shared: Arc<Shared>, request: Request, fault: Option<(WatchFault, After)>, agent: &str) -> Self {
        let now = Instant::now();
        let fault = fault.map(|(fault, after)| match after {
            After::Events(count) => (fault, Trigger::EventsLeft(count)),
            After::Time(time) => (fault, Trigger::At(now + time)),
        });
        shared.open_watches.fetch_add(1, Ordering::Relaxed);
        Self {
            kind: request.resource.stored_as().to_owned(),
            agent: agent.to_owned(),
            api_version: request.resource.api_version(),
            deadline: now + request.timeout,
            next_bookmark: now + shared.bookmark_every.min(request.timeout),
            fault,
            over: false,
            _open: Open(shared.open_watches.clone()),
            shared,
            request,
        }
    }

    /// The next piece of the stream, nothing at its end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if self.over {
                return None;
            }
            if let Some(failure) = self.request.refusal.take() {
                return Some(Ok(self.end_with(failure)));
            }
            // Listening begins before looking, so that no write falls in between.
            let changed = self.request.changed.clone();
            let mut changed = std::pin::pin!(changed.notified());
            changed.as_mut().enable();

            let now = Instant::now();
            let room = match self.due_fault(now) {
                Due::Now(WatchFault::Drop) => {
                    self.over = true;
                    return Some(Err(Broken));
                }
                Due::Now(WatchFault::Expire) => {
                    let oldest = self.shared.state.lock().store.revision();
                    let text = format!("too old resource version: {} ({oldest})", self.request.cursor);
                    return Some(Ok(self.end_with(Failure::expired(text))));
                }
                Due::Now(WatchFault::Stall) => std::future::pending().await,
                Due::After(events) => events,
            };
            if let Some(piece) = self.read(room) {
                return Some(Ok(piece));
            }
            if self.over || now >= self.deadline {
                return None;
            }
            if now >= self.next_bookmark {
                self.next_bookmark = now + self.shared.bookmark_every;
                let revision = self.request.cursor;
                // A client that is ahead of a restored server hears nothing until the server has caught up.
                if self.request.bookmarks && revision <= self.shared.state.lock().store.revision() {
                    return Some(Ok(self.lines(&[Event::Bookmark { revision, initial_events_end: false }])));
                }
            }
            let fault_at = match self.fault {
                Some((_, Trigger::At(at))) => at,
                _ => self.deadline,
            };
            let wake = self.deadline.min(self.next_bookmark).min(fault_at);
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn due_fault(&self, now: Instant) -> Due {
        match self.fault {
            Some((fault, Trigger::EventsLeft(0))) => Due::Now(fault),
            Some((fault, Trigger::At(at))) if at <= now => Due::Now(fault),
            Some((_, Trigger::EventsLeft(left))) => Due::After(usize::try_from(left).unwrap_or(BATCH).min(BATCH)),
            _ => Due::After(BATCH),
        }
    }

    /// Reads on, up to `room` events; nothing if there is nothing new.
    fn read(&mut self, room: usize) -> Option<Bytes> {
        let mut events = Vec::new();
        while let Some(object) = self.request.initial.pop_front_if(|_| events.len() < room) {
            events.push(Event::Added(object));
        }
        if !self.request.initial.is_empty() {
            return self.send(&events);
        }
        if self.request.end_of_initial == EndOfInitial::Pending {
            self.request.end_of_initial = EndOfInitial::Silent;
            let sent = events.len();
            events.push(Event::Bookmark { revision: self.request.cursor, initial_events_end: true });
            self.count(sent);
            return Some(self.lines(&events));
        }
        let progress = {
            let state = self.shared.state.lock();
            let progress = self.request.advance(&state, &self.kind, room, &mut events);
            let shown = Observation::Shown { kind: &self.kind, to: &self.agent, revision: self.request.cursor };
            state.store.observed.tell(&shown);
            progress
        };
        match progress {
            Ok(Progress::Reading) => {}
            Ok(Progress::Over) => self.over = true,
            Err(compacted) => return Some(self.end_with(Failure::expired(compacted.to_string()))),
        }
        self.send(&events)
    }

    fn send(&mut self, events: &[Event]) -> Option<Bytes> {
        if events.is_empty() {
            return None;
        }
        self.count(events.len());
        Some(self.lines(events))
    }

    fn count(&mut self, events: usize) {
        if let Some((_, Trigger::EventsLeft(left))) = &mut self.fault {
            *left = left.saturating_sub(events as u64);
        }
    }

    fn end_with(&mut self, failure: Failure) -> Bytes {
        self.over = true;
        self.lines(&[Event::Error(failure)])
    }

    fn lines(&mut self, events: &[Event]) -> Bytes {
        let mut out = Vec::new();
        let now = (self.shared.now)();
        for event in events {
            let form = self.request.form.later(now);
            render::event(&self.request.resource, &self.api_version, form, event, &mut out);
            self.request.form = form.continued();
        }
        out.into()
    }
}

enum Due {
    Now(WatchFault),
    After(usize),
}

/// What a change is to a client that only sees a selection.
fn seen_by(selection: &Selection, change: &Change) -> Option<Event> {
    if !selection.covers(&change.key) {
        return None;
    }
    let before = change.before.as_ref().filter(|object| selection.matches(object));
    let after = Some(&change.after).filter(|object| change.kind == ChangeKind::Put && selection.matches(object));
    match (before, after) {
        (None, None) => None,
        (None, Some(after)) => Some(Event::Added(after.clone())),
        (Some(_), Some(after)) => Some(Event::Modified(after.clone())),
        (Some(before), None) => Some(Event::Deleted { last: before.clone(), revision: change.revision }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::meta;
    use crate::selector::{FieldPaths, Fields, Labels};
    use crate::store::{History, Key, Store};

    proptest! {
        /// The promise of list and watch: whoever lists once and follows the events has what a list would show now.
        /// Shows SRV-4.
        #[test]
        fn events_turn_an_old_list_into_the_present_one(
            writes in prop::collection::vec((0u8..4, prop::option::of(any::<bool>())), 1..40),
            from in any::<prop::sample::Index>(),
        ) {
            let mut store = Store::new(History { writes: 100, age: Duration::MAX });
            for (name, label) in writes {
                let key = Key::new("", &format!("n{name}"));
                match label {
                    Some(on) => drop(store.put("things", key, json!({ "metadata": { "labels": { "on": on.to_string() } } }), Timestamp::UNIX_EPOCH)),
                    None => drop(store.remove("things", &key, Timestamp::UNIX_EPOCH)),
                }
            }
            let fields = Fields::parse("", &FieldPaths::metadata()).unwrap();
            let selection = Selection { namespace: None, labels: Labels::parse("on=true").unwrap(), fields };
            let list = |revision| -> BTreeMap<Key, Arc<Value>> {
                let view = store.view("things", revision, None, None).unwrap();
                view.into_iter().filter(|(_, o)| selection.matches(o)).map(|(k, o)| (k.clone(), o.clone())).collect()
            };
            let from = 1 + from.index(usize::try_from(store.revision()).unwrap()) as u64;
            let mut followed = list(from);
            for change in store.changes_after("things", from).unwrap() {
                let known = followed.contains_key(&change.key);
                match seen_by(&selection, change) {
                    None => {}
                    Some(Event::Added(object)) => prop_assert!(followed.insert(change.key.clone(), object).is_none()),
                    Some(Event::Modified(object)) => prop_assert!(followed.insert(change.key.clone(), object).is_some()),
                    Some(Event::Deleted { last, .. }) => {
                        prop_assert!(known && meta::get(&last, "labels").is_some());
                        followed.remove(&change.key);
                    }
                    Some(other) => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(followed, list(store.revision()));
        }
    }
}
