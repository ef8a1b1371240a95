//! Decides whether an Event is written, and how. No I/O; names and time are parameters.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use super::recent::LruMap;
use super::{Emitted, Limits};

/// Identity of one Event object: a message, or all combined messages of a series.
///
/// Events, series and subjects are identified by hashes, because thousands are remembered in several maps and their names are
/// long. If two hashes are equal, the Events are counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId(u64);

/// What is remembered about an Event object.
#[derive(Clone, Debug)]
struct Existing {
    name: String,
    count: i32,
    first: Timestamp,
}

#[derive(Debug)]
struct Similar {
    messages: Vec<u64>,
    last: Timestamp,
}

#[derive(Debug)]
struct Allowance {
    tokens: f64,
    at: Timestamp,
}

/// Remembers Events to detect repetitions. Each map is bounded.
#[derive(Debug)]
pub(super) struct Correlator {
    limits: Limits,
    similar: LruMap<u64, Similar>,
    events: LruMap<u64, Existing>,
    allowances: LruMap<u64, Allowance>,
}

/// The Event object to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct EventWrite {
    pub(super) id: EventId,
    pub(super) verb: Verb,
    pub(super) name: String,
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// The Event object does not exist yet.
    Create,
    /// The Event object exists, unless it has expired.
    Patch,
}

impl Correlator {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            similar: LruMap::new(limits.remembered),
            events: LruMap::new(limits.remembered),
            allowances: LruMap::new(limits.remembered),
        }
    }

    /// Returns the object to write for `emitted`, or `None` if the rate limit of its object is exceeded. `new_name` returns
    /// the name of a new Event object.
    pub(super) fn correlate(&mut self, emitted: &Emitted, new_name: impl FnOnce() -> String) -> Option<EventWrite> {
        let event = &emitted.event;
        let subject = hash((&emitted.component, identity(&emitted.about)));
        let series = hash((subject, event.event_type, &event.reason));
        let (id, message) = self.combine(series, emitted);
        let mut verb = Verb::Patch;
        let existing = self.events.get_or_insert_with(id.0, || {
            verb = Verb::Create;
            Existing { name: new_name(), count: 0, first: emitted.at }
        });
        // Events over the rate limit are counted too, so that the next write has the correct count.
        existing.count = existing.count.saturating_add(1);
        let Existing { name, count, first } = existing.clone();
        let write = EventWrite { id, verb, name, count, first, last: emitted.at, message };
        self.allow(subject, emitted.at).then_some(write)
    }

    /// Records that the Event was created again with another name.
    pub(super) fn renamed(&mut self, write: &EventWrite, name: &str) {
        if let Some(existing) = self.events.peek_mut(&write.id.0) {
            name.clone_into(&mut existing.name);
        }
    }

    /// Selects the Event object for a message: its own, or the combined one if there are too many similar messages.
    fn combine(&mut self, series: u64, emitted: &Emitted) -> (EventId, String) {
        let message = hash(&emitted.event.message);
        let new = || Similar { messages: Vec::new(), last: emitted.at };
        let similar = self.similar.get_or_insert_with(series, new);
        if emitted.at.duration_since(similar.last) > span(self.limits.similar_within) {
            similar.messages.clear();
        }
        similar.last = emitted.at;
        let known = similar.messages.contains(&message);
        if !known && similar.messages.len() < self.limits.similar {
            similar.messages.push(message);
        } else if !known {
            let combined = format!("(combined from similar events): {}", emitted.event.message);
            return (EventId(hash((series, None::<u64>))), combined);
        }
        (EventId(hash((series, Some(message)))), emitted.event.message.clone())
    }

    /// Takes a token of the subject. Wall time is sufficient: if the clock is set back, the next token is delayed.
    fn allow(&mut self, subject: u64, at: Timestamp) -> bool {
        let burst = f64::from(self.limits.burst);
        let allowance = self.allowances.get_or_insert_with(subject, || Allowance { tokens: burst, at });
        let elapsed = at.duration_since(allowance.at).as_secs_f64().max(0.0);
        let gained = elapsed / self.limits.interval.as_secs_f64().max(f64::MIN_POSITIVE);
        allowance.tokens = (allowance.tokens + gained).min(burst);
        allowance.at = at;
        let allowed = allowance.tokens >= 1.0;
        if allowed {
            allowance.tokens -= 1.0;
        }
        allowed
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> [usize; 3] {
        [self.similar.len(), self.events.len(), self.allowances.len()]
    }
}

/// Returns the fields that identify an object.
fn identity(about: &ObjectReference) -> [&Option<String>; 5] {
    [&about.kind, &about.namespace, &about.name, &about.uid, &about.api_version]
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn span(duration: std::time::Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::{Event, EventType};
    use std::time::Duration;

    struct Fixture {
        correlator: Correlator,
        now: Timestamp,
        names: u32,
    }

    impl Fixture {
        fn new() -> Self {
            Self { correlator: Correlator::new(Limits::default()), now: Timestamp::UNIX_EPOCH, names: 0 }
        }

        fn emit(&mut self, object: &str, reason: &'static str, message: &str) -> Option<EventWrite> {
            let about = ObjectReference { name: Some(object.into()), ..ObjectReference::default() };
            let event_type = EventType::Normal;
            let event = Event { event_type, reason, message: message.into() };
            let emitted = Emitted { component: "test".into(), about, event, at: self.now };
            let names = &mut self.names;
            self.correlator.correlate(&emitted, || {
                *names += 1;
                format!("event-{names}")
            })
        }

        fn pass(&mut self, duration: Duration) {
            self.now += duration;
        }
    }

    #[test]
    fn repeated_message_increases_the_count_of_the_event() {
        let mut fixture = Fixture::new();
        let first = fixture.emit("m", "Joined", "hello").unwrap();
        assert_eq!((first.verb, first.count), (Verb::Create, 1));
        fixture.pass(Duration::from_secs(5));
        let again = fixture.emit("m", "Joined", "hello").unwrap();
        assert_eq!((again.verb, again.count, &again.name), (Verb::Patch, 2, &first.name));
        assert_eq!((again.first, again.last), (first.first, fixture.now));
    }

    #[test]
    fn another_message_object_or_reason_creates_another_event() {
        let mut fixture = Fixture::new();
        let names = [
            fixture.emit("m", "Joined", "hello"),
            fixture.emit("m", "Joined", "hello, world"),
            fixture.emit("n", "Joined", "hello"),
            fixture.emit("m", "Left", "hello"),
        ]
        .map(|write| write.unwrap().name);
        assert_eq!(names, ["event-1", "event-2", "event-3", "event-4"]);
    }

    /// Shows EVT-2.
    #[test]
    fn eleventh_similar_message_starts_a_combined_event() {
        let mut fixture = Fixture::new();
        for i in 0..10 {
            assert_eq!(fixture.emit("m", "Failed", &format!("error {i}")).unwrap().verb, Verb::Create);
        }
        let eleventh = fixture.emit("m", "Failed", "error 10").unwrap();
        assert_eq!((eleventh.verb, eleventh.count), (Verb::Create, 1));
        assert_eq!(eleventh.message, "(combined from similar events): error 10");
        let twelfth = fixture.emit("m", "Failed", "error 11").unwrap();
        assert_eq!((twelfth.verb, twelfth.count, &twelfth.name), (Verb::Patch, 2, &eleventh.name));
        assert_eq!(twelfth.message, "(combined from similar events): error 11");
    }

    #[test]
    fn combining_ends_after_ten_minutes_without_messages() {
        let mut fixture = Fixture::new();
        for i in 0..12 {
            fixture.emit("m", "Failed", &format!("error {i}"));
        }
        fixture.pass(Duration::from_secs(601));
        assert_eq!(fixture.emit("m", "Failed", "error 12").unwrap().message, "error 12");
    }

    #[test]
    fn events_of_an_object_are_limited_after_a_burst_of_25() {
        let mut fixture = Fixture::new();
        let written = (0..60).filter(|_| fixture.emit("m", "Failed", "again").is_some()).count();
        assert_eq!(written, 25);
        assert!(fixture.emit("n", "Failed", "again").is_some(), "another object has its own limit");
        fixture.pass(Duration::from_mins(5));
        let next = fixture.emit("m", "Failed", "again").unwrap();
        assert_eq!(next.count, 61, "dropped Events are counted");
        assert!(fixture.emit("m", "Failed", "again").is_none());
    }

    /// Shows EVT-2.
    #[test]
    fn memory_is_bounded() {
        let mut fixture = Fixture::new();
        fixture.correlator = Correlator::new(Limits { remembered: 100, ..Limits::default() });
        for i in 0..5_000 {
            fixture.emit(&format!("m{}", i % 700), "Failed", &format!("error {i}"));
        }
        assert_eq!(fixture.correlator.remembered(), [100, 100, 100]);
    }
}
