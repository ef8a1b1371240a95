//! Which Events are worth a write, and which write. Pure: names and time come in.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use super::recent::Recent;
use super::{Emitted, Limits};

/// One Event object: a message, or everything of a series that was combined.
///
/// It, its series and who it is about are remembered as hashes: thousands are, each in several maps, and their names are long. Should two of
/// them clash, one is counted as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told(u64);

/// What is remembered of an Event object.
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

/// What is remembered to tell a repetition from news. Each map is bounded.
#[derive(Debug)]
pub(super) struct Correlator {
    limits: Limits,
    similar: Recent<u64, Similar>,
    told: Recent<u64, Existing>,
    allowances: Recent<u64, Allowance>,
}

/// An Event as it should stand on the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Telling {
    pub(super) told: Told,
    pub(super) how: How,
    pub(super) name: String,
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It is not there yet.
    Create,
    /// It is there, unless it has expired.
    Repeat,
}

impl Correlator {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            similar: Recent::new(limits.remembered),
            told: Recent::new(limits.remembered),
            allowances: Recent::new(limits.remembered),
        }
    }

    /// What to write for `emitted`, or `None` when its object has had its say. `fresh_name` names an Event that is new.
    pub(super) fn correlate(&mut self, emitted: &Emitted, fresh_name: impl FnOnce() -> String) -> Option<Telling> {
        let event = &emitted.event;
        let subject = hash((&emitted.component, who(&event.about)));
        let series = hash((subject, event.event_type, &event.reason));
        let (told, message) = self.combine(series, emitted);
        let mut how = How::Repeat;
        let existing = self.told.use_or_make(told.0, || {
            how = How::Create;
            Existing { name: fresh_name(), count: 0, first: emitted.at }
        });
        // Counted before it is decided whether to say so: when the object may speak again, the figure is right.
        existing.count = existing.count.saturating_add(1);
        let Existing { name, count, first } = existing.clone();
        let telling = Telling { told, how, name, count, first, last: emitted.at, message };
        self.allow(subject, emitted.at).then_some(telling)
    }

    /// The Event of `telling` had to be made anew, as `name`.
    pub(super) fn renamed(&mut self, telling: &Telling, name: &str) {
        if let Some(existing) = self.told.peek_mut(&telling.told.0) {
            name.clone_into(&mut existing.name);
        }
    }

    /// Under which Event a message is told: its own, or that of all similar ones once there are too many.
    fn combine(&mut self, series: u64, emitted: &Emitted) -> (Told, String) {
        let message = hash(&emitted.event.message);
        let fresh = || Similar { messages: Vec::new(), last: emitted.at };
        let similar = self.similar.use_or_make(series, fresh);
        if emitted.at.duration_since(similar.last) > span(self.limits.similar_within) {
            similar.messages.clear();
        }
        similar.last = emitted.at;
        let known = similar.messages.contains(&message);
        if !known && similar.messages.len() < self.limits.similar {
            similar.messages.push(message);
        } else if !known {
            let combined = format!("(combined from similar events): {}", emitted.event.message);
            return (Told(hash((series, None::<u64>))), combined);
        }
        (Told(hash((series, Some(message)))), emitted.event.message.clone())
    }

    /// Takes one of the subject's tokens. Wall time is good enough here; a clock set back only delays the next token.
    fn allow(&mut self, subject: u64, at: Timestamp) -> bool {
        let burst = f64::from(self.limits.burst);
        let allowance = self.allowances.use_or_make(subject, || Allowance { tokens: burst, at });
        let elapsed = at.duration_since(allowance.at).as_secs_f64().max(0.0);
        let gained = elapsed / self.limits.then_one_per.as_secs_f64().max(f64::MIN_POSITIVE);
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
        [self.similar.len(), self.told.len(), self.allowances.len()]
    }
}

/// What tells an object from every other.
fn who(about: &ObjectReference) -> [&Option<String>; 5] {
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
    use crate::events::{Event, EventType};
    use std::time::Duration;

    struct Talk {
        correlator: Correlator,
        now: Timestamp,
        names: u32,
    }

    impl Talk {
        fn new() -> Self {
            Self { correlator: Correlator::new(Limits::default()), now: Timestamp::UNIX_EPOCH, names: 0 }
        }

        fn say(&mut self, object: &str, reason: &'static str, message: &str) -> Option<Telling> {
            let about = ObjectReference { name: Some(object.into()), ..ObjectReference::default() };
            let event_type = EventType::Normal;
            let event = Event { about, event_type, reason: reason.into(), message: message.into() };
            let emitted = Emitted { component: "test".into(), event, at: self.now };
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
    fn the_same_said_again_raises_the_count_of_the_event_that_is_there() {
        let mut talk = Talk::new();
        let first = talk.say("m", "Joined", "hello").unwrap();
        assert_eq!((first.how, first.count), (How::Create, 1));
        talk.pass(Duration::from_secs(5));
        let again = talk.say("m", "Joined", "hello").unwrap();
        assert_eq!((again.how, again.count, &again.name), (How::Repeat, 2, &first.name));
        assert_eq!((again.first, again.last), (first.first, talk.now));
    }

    #[test]
    fn another_message_object_or_reason_is_another_event() {
        let mut talk = Talk::new();
        let names = [
            talk.say("m", "Joined", "hello"),
            talk.say("m", "Joined", "hello, world"),
            talk.say("n", "Joined", "hello"),
            talk.say("m", "Left", "hello"),
        ]
        .map(|telling| telling.unwrap().name);
        assert_eq!(names, ["event-1", "event-2", "event-3", "event-4"]);
    }

    /// Shows EVT-2.
    #[test]
    fn from_the_eleventh_similar_message_on_they_share_one_event_that_shows_the_newest() {
        let mut talk = Talk::new();
        for i in 0..10 {
            assert_eq!(talk.say("m", "Failed", &format!("error {i}")).unwrap().how, How::Create);
        }
        let eleventh = talk.say("m", "Failed", "error 10").unwrap();
        assert_eq!((eleventh.how, eleventh.count), (How::Create, 1));
        assert_eq!(eleventh.message, "(combined from similar events): error 10");
        let twelfth = talk.say("m", "Failed", "error 11").unwrap();
        assert_eq!((twelfth.how, twelfth.count, &twelfth.name), (How::Repeat, 2, &eleventh.name));
        assert_eq!(twelfth.message, "(combined from similar events): error 11");
    }

    #[test]
    fn ten_quiet_minutes_end_the_combining() {
        let mut talk = Talk::new();
        for i in 0..12 {
            talk.say("m", "Failed", &format!("error {i}"));
        }
        talk.pass(Duration::from_secs(601));
        assert_eq!(talk.say("m", "Failed", "error 12").unwrap().message, "error 12");
    }

    #[test]
    fn an_object_has_its_say_25_times_then_once_in_five_minutes() {
        let mut talk = Talk::new();
        let told = (0..60).filter(|_| talk.say("m", "Failed", "again").is_some()).count();
        assert_eq!(told, 25);
        assert!(talk.say("n", "Failed", "again").is_some(), "another object is not held back");
        talk.pass(Duration::from_mins(5));
        let next = talk.say("m", "Failed", "again").unwrap();
        assert_eq!(next.count, 61, "what was not told is still counted");
        assert!(talk.say("m", "Failed", "again").is_none());
    }

    /// Shows EVT-2.
    #[test]
    fn memory_is_bounded_whatever_is_said() {
        let mut talk = Talk::new();
        talk.correlator = Correlator::new(Limits { remembered: 100, ..Limits::default() });
        for i in 0..5_000 {
            talk.say(&format!("m{}", i % 700), "Failed", &format!("error {i}"));
        }
        assert_eq!(talk.correlator.remembered(), [100, 100, 100]);
    }
}
