//! The conversation with the API server, one step at a time.
//!
//! ```text
//!            ┌──────────── 410, an error in the stream, a version from the past, a refresh ───────────┐
//!            ▼                                                                                        │
//!   ┌──► Listing ── all pages ──► Opening ── accepted ──► Watching ── ended, broke off, fell silent ──┤
//!   │        └───────── streamed list: the same stream goes on ──────►    (list) or Opening or Probing
//!   └── Waiting ◄── any failure: each cache by itself, longer each time, or until another is answered
//! ```
//!
//! [`Protocol::step`] does one thing (one list, one request for a watch, one event, one wait) and says what comes next. The
//! API server is behind [`ListWatch`], so that tests can play any server, step by step.
//!
//! A watch that merely ends is opened again where it was; only what makes the history unusable costs a list, and a line that broke
//! the smallest one. After [`CUT_OFF`] without an answer the history may be another one, and everything is listed (ADR 0074). A list is
//! collected completely before anything is touched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::backoff::Backoff;
use super::decoded::Decoded;
use super::list_watch::{Event, Events, ListAsk, ListWatch, ListWatchError, Start, WatchAsk};
use super::pages::{self, Collected, within};
use super::retry_signal::RetrySignal;
use super::settings::{Listing, Reading, Settings};
use super::shared::Shared;
use super::status::State;
use super::store::{Cached, Freshness};
use super::version::Version;
use crate::{Clock, Key, Random};

/// How much before the agreed time a server may end a watch and still be punctual.
const PUNCTUAL_WITHIN: Duration = Duration::from_secs(2);
/// A watch that ends sooner than this without a word is a server in error, not a server that tidies up.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// An API server can be put back to an older copy only while it does not answer. One that has not answered for this long may have been, and
/// its new history may have come further than we were: then no version tells.
const CUT_OFF: Duration = Duration::from_secs(5);

/// A server may ask to be left alone, but not for good.
const LONGEST_REQUESTED_WAIT: Duration = Duration::from_mins(5);

/// What comes next.
pub(super) enum Phase<K> {
    /// Read everything.
    Listing(Reading),
    /// Ask for every change after this version.
    Opening(Version),
    /// Hear them.
    Watching(Watching<K>),
    /// A watch from this version was silent to its end, or the line broke: does the server still know that version?
    Probing(Version),
    /// Let the server breathe.
    Waiting { until: Instant, then: Box<Phase<K>> },
}

pub(super) struct Watching<K> {
    events: Events<K>,
    /// The last version the watch has shown; where the next one goes on.
    at: Version,
    since: Instant,
    /// By now the server has ended the watch, or it is dead.
    until: Instant,
    heard: bool,
}

/// Why reading everything did not work.
enum Unlisted {
    ListWatchError(ListWatchError),
    /// The server does not know streamed lists.
    CannotStream(String),
}

impl From<ListWatchError> for Unlisted {
    fn from(error: ListWatchError) -> Self {
        Self::ListWatchError(error)
    }
}

struct Listed<K> {
    version: Version,
    items: Vec<Decoded<K>>,
    /// The stream that goes on behind a streamed list.
    stream: Option<Watching<K>>,
}

pub(super) struct Protocol<K: Cached, S> {
    list_watch: S,
    shared: Arc<Shared<K>>,
    settings: Settings,
    clock: Clock,
    random: Random,
    backoff: Backoff,
    retry_signal: RetrySignal,
    wanted: watch::Receiver<u64>,
    /// The error that has been logged and is not over yet.
    said: Option<String>,
    /// Since when the server has not answered.
    unanswered_since: Option<Instant>,
}

impl<K: Cached, S: ListWatch<K>> Protocol<K, S> {
    pub(super) fn new(list_watch: S, shared: Arc<Shared<K>>, settings: Settings, clock: Clock, random: Random) -> Self {
        let (backoff, retry_signal) = (Backoff::new(random.fork()), settings.retry_signal.clone());
        let wanted = shared.wanted();
        let (said, unanswered_since) = (None, None);
        Self { list_watch, shared, settings, clock, random, backoff, retry_signal, wanted, said, unanswered_since }
    }

    pub(super) fn beginning(&self) -> Phase<K> {
        Phase::Listing(self.settings.reading)
    }

    pub(super) async fn step(&mut self, phase: Phase<K>) -> Phase<K> {
        match phase {
            Phase::Listing(reading) => self.list(reading).await,
            Phase::Opening(_) if self.shared.refresh_is_wanted() => Phase::Listing(Reading::Quorum),
            Phase::Opening(_) | Phase::Probing(_) if self.was_cut_off() => {
                self.shared.change(|store, _| store.cut_off());
                Phase::Listing(Reading::Quorum)
            }
            Phase::Opening(version) => self.open(version).await,
            Phase::Watching(watching) => self.hear(watching).await,
            Phase::Probing(version) => self.probe(version).await,
            Phase::Waiting { until, then } => {
                self.wait_until(until).await;
                *then
            }
        }
    }

    /// One that is cut off waits no longer than until another is answered. One that has just begun to wait does not take that for a
    /// sign: what reaches one in two requests would be asked without a pause.
    async fn wait_until(&self, until: Instant) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return,
                () = self.retry_signal.others_are_answered() => {
                    if self.was_cut_off() {
                        return;
                    }
                }
            }
        }
    }

    async fn list(&mut self, reading: Reading) -> Phase<K> {
        self.shared.enter(State::Listing);
        // A streamed list without a version is as fresh as one with quorum.
        let fresh = reading == Reading::Quorum || self.settings.listing == Listing::Streamed;
        let ticket = fresh.then(|| self.shared.tickets());
        let collected = match self.settings.listing {
            Listing::Streamed => self.stream().await,
            Listing::Paged => self.page_through(reading).await.map_err(Unlisted::from),
        };
        let listed = match collected {
            Ok(listed) => listed,
            Err(Unlisted::CannotStream(why)) => {
                tracing::info!(
                    kind = self.shared.kind(),
                    why,
                    "the API server does not stream lists; reading pages instead"
                );
                self.settings.listing = Listing::Paged;
                return Phase::Listing(reading);
            }
            Err(Unlisted::ListWatchError(error)) => return self.set_back("list", &error, Phase::Listing(reading)),
        };
        let was_cut_off = self.was_cut_off();
        self.answered();
        let Listed { version, items, stream } = listed;
        match self.shared.list(&version, items, ticket) {
            Freshness::Taken => {
                self.shared.count(|counters| counters.lists += 1);
                stream.map_or(Phase::Opening(version), Phase::Watching)
            }
            Freshness::Regressed => {
                if was_cut_off {
                    // What we waited for longer and longer is over, and nobody acts before everything has been read again.
                    self.backoff.reset();
                }
                self.doubt()
            }
        }
    }

    /// All pages of a plain list.
    async fn page_through(&self, reading: Reading) -> Result<Listed<K>, ListWatchError> {
        let Collected { version, items } = pages::collect(&self.list_watch, &self.settings, reading).await?;
        self.notice_undecodable(&items);
        Ok(Listed { version, items, stream: None })
    }

    /// A list as the beginning of a watch.
    async fn stream(&self) -> Result<Listed<K>, Unlisted> {
        let mut watching = match self.request(Start::Everything).await {
            Ok(watching) => watching,
            Err(ListWatchError::Refused(status)) if matches!(status.code, 400 | 422) => {
                return Err(Unlisted::CannotStream(status.message));
            }
            Err(error) => return Err(error.into()),
        };
        let mut collected: BTreeMap<Key, Decoded<K>> = BTreeMap::new();
        let patience = watching.since + self.settings.stream_within;
        loop {
            match timeout_at(patience, watching.events.next()).await {
                Ok(Some(Ok(Event::Bookmark { version, complete: true }))) => {
                    let items: Vec<_> = collected.into_values().collect();
                    self.notice_undecodable(&items);
                    watching.at = version.clone();
                    watching.heard = true;
                    return Ok(Listed { version, items, stream: Some(watching) });
                }
                Ok(Some(Ok(Event::Bookmark { .. }))) => {}
                Ok(Some(Ok(Event::Applied(object)))) => {
                    collected.insert(object.key(), object);
                }
                Ok(Some(Ok(Event::Ended(object)))) => {
                    collected.remove(&object.key());
                }
                Ok(Some(Err(error))) => return Err(error.into()),
                Ok(None) => return Err(ListWatchError::Unreachable("a streamed list broke off".to_owned()).into()),
                Err(_) => return Err(Unlisted::CannotStream("no end of the initial events was marked".to_owned())),
            }
        }
    }

    async fn open(&mut self, from: Version) -> Phase<K> {
        match self.request(Start::After(from.clone())).await {
            Ok(watching) => {
                self.answered();
                Phase::Watching(watching)
            }
            Err(ListWatchError::Gone) => self.expired(),
            // The kind itself is gone (a deleted CRD): when it is back, its objects are others.
            Err(error) if error.code() == Some(404) => {
                let again = Phase::Listing(self.settings.reading);
                self.set_back("watch", &error, again)
            }
            Err(error @ ListWatchError::Unreachable(_)) => self.set_back("watch", &error, Phase::Probing(from)),
            Err(error) => self.set_back("watch", &error, Phase::Opening(from)),
        }
    }

    async fn request(&self, from: Start) -> Result<Watching<K>, ListWatchError> {
        let spread = self.settings.watch_at_most.saturating_sub(self.settings.watch_at_least);
        let lasting = self.settings.watch_at_least + Duration::from_secs(self.random.below(spread.as_secs() + 1));
        let since = self.clock.instant();
        let at = match &from {
            Start::After(version) => version.clone(),
            Start::Everything => Version::default(),
        };
        let events = within(self.settings.open_within, self.list_watch.watch(WatchAsk { from, lasting })).await?;
        self.shared.count(|counters| counters.watches += 1);
        Ok(Watching { events, at, since, until: since + lasting + self.settings.watch_grace, heard: false })
    }

    /// Waits for one event.
    async fn hear(&mut self, mut watching: Watching<K>) -> Phase<K> {
        self.shared.enter(State::Watching);
        if self.shared.refresh_is_wanted() {
            return Phase::Listing(Reading::Quorum);
        }
        let heard = tokio::select! {
            biased;
            _ = self.wanted.changed() => return Phase::Watching(watching),
            heard = timeout_at(watching.until, watching.events.next()) => heard,
        };
        let event = match heard {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(ListWatchError::Gone))) => return self.expired(),
            Ok(Some(Err(error @ ListWatchError::Unreachable(_)))) => {
                return self.set_back("watch", &error, Phase::Probing(watching.at));
            }
            // An error in the stream, or an event we cannot read: what was lost is unknown.
            Ok(Some(Err(error))) => {
                let again = Phase::Listing(self.settings.reading);
                return self.set_back("watch", &error, again);
            }
            Ok(None) => return self.go_on_after(watching),
            Err(_) => {
                self.shared.count(|counters| counters.stalls += 1);
                return self.go_on_after(watching);
            }
        };
        watching.heard = true;
        self.recovered();
        match self.take(event) {
            (Freshness::Taken, version) => {
                if !version.as_str().is_empty() {
                    watching.at = version;
                }
                Phase::Watching(watching)
            }
            (Freshness::Regressed, _) => self.doubt(),
        }
    }

    fn take(&self, event: Event<K>) -> (Freshness, Version) {
        match event {
            Event::Applied(object) => {
                self.notice_undecodable(std::slice::from_ref(&object));
                self.shared.count(|counters| counters.events += 1);
                let version = Version::new(object.version());
                (self.shared.change(|store, deltas| store.applied(object, deltas)), version)
            }
            Event::Ended(object) => {
                self.shared.count(|counters| counters.events += 1);
                let version = Version::new(object.version());
                (self.shared.change(|store, deltas| store.ended(object, deltas)), version)
            }
            Event::Bookmark { version, .. } => {
                self.shared.count(|counters| counters.bookmarks += 1);
                (self.shared.change(|store, _| store.passed(&version)), version)
            }
        }
    }

    /// The watch is over without anything being wrong with it: the next one begins where it ended. One that ended before its
    /// time may have ended because the server did, and the one that came back may have an older etcd: it is asked first.
    fn go_on_after(&mut self, watching: Watching<K>) -> Phase<K> {
        let Watching { at, since, until, heard, .. } = watching;
        let early = self.clock.instant() + self.settings.watch_grace + PUNCTUAL_WITHIN < until;
        if heard {
            return if early { Phase::Probing(at) } else { Phase::Opening(at) };
        }
        if self.clock.instant() >= since + TOO_SHORT {
            self.backoff.reset();
            return Phase::Probing(at);
        }
        let wait = self.backoff.after_surprise();
        self.wait(wait, "the API server ends each watch at once".to_owned(), Phase::Opening(at))
    }

    /// Asks for the version of the smallest list. Healthy servers send a bookmark before a watch ends; one whose etcd was
    /// restored accepts a watch from a version it has not reached yet and says nothing until it has, while we would take
    /// the silence for peace. Once it has, nobody can tell any more that time went back, and what vanished would stay with us
    /// for good. A restore needs the server to be away for a moment, so we ask as soon as it is back.
    async fn probe(&mut self, at: Version) -> Phase<K> {
        let ask = ListAsk { limit: Some(1), next: None, cached: false };
        let page = match within(self.settings.page_within, self.list_watch.list(ask)).await {
            Ok(page) => page,
            Err(error) => return self.set_back("list", &error, Phase::Probing(at)),
        };
        self.recovered();
        let is_from_the_past = page.version.number().zip(at.number()).is_some_and(|(now, then)| now < then);
        if is_from_the_past && self.shared.change(|store, _| store.passed(&page.version)) == Freshness::Regressed {
            return self.doubt();
        }
        Phase::Opening(at)
    }

    fn expired(&mut self) -> Phase<K> {
        self.shared.count(|counters| counters.expirations += 1);
        let wait = self.backoff.after_surprise();
        let again = Phase::Listing(self.settings.reading);
        self.wait(wait, ListWatchError::Gone.to_string(), again)
    }

    fn doubt(&mut self) -> Phase<K> {
        tracing::warn!(
            kind = self.shared.kind(),
            "the API server shows an older state than before; nothing destructive until everything has been read again"
        );
        self.shared.doubted();
        self.shared.count(|counters| counters.regressions += 1);
        let wait = self.backoff.after_surprise();
        // What streamed lists promise after a restore is not worth finding out.
        self.settings.listing = Listing::Paged;
        self.wait(wait, "the API server shows an older state than before".to_owned(), Phase::Listing(Reading::Quorum))
    }

    fn set_back(&mut self, what: &str, error: &ListWatchError, then: Phase<K>) -> Phase<K> {
        self.shared.count(|counters| counters.failures += 1);
        let why = format!("failed to {what}: {error}");
        if error.is_unanswered() {
            self.unanswered_since.get_or_insert(self.clock.instant());
        }
        self.shared.broke(error.disconnect_reason(), &why, self.clock.now());
        // A missing permission stays missing for hours; it is said when it begins, and again when it changes.
        if self.said.as_ref() == Some(&why) {
            tracing::debug!(kind = self.shared.kind(), why, "still waiting for the API server");
        } else {
            tracing::warn!(kind = self.shared.kind(), why, "waiting for the API server");
            self.said = Some(why.clone());
        }
        let wait = self.backoff.after_failure().max(error.retry_after().min(LONGEST_REQUESTED_WAIT));
        self.wait(wait, why, then)
    }

    fn was_cut_off(&self) -> bool {
        self.unanswered_since.is_some_and(|since| self.clock.instant() >= since + CUT_OFF)
    }

    fn answered(&mut self) {
        self.shared.heard(self.clock.now());
        if self.was_cut_off() {
            self.retry_signal.answered();
        }
        self.unanswered_since = None;
    }

    fn recovered(&mut self) {
        self.answered();
        self.backoff.reset();
        if self.said.take().is_some() {
            tracing::info!(kind = self.shared.kind(), "the API server answers again");
        }
    }

    fn wait(&self, wait: Duration, why: String, then: Phase<K>) -> Phase<K> {
        if wait.is_zero() {
            return then;
        }
        let now = self.clock.now();
        let until = jiff::SignedDuration::try_from(wait).ok().and_then(|wait| now.checked_add(wait).ok());
        self.shared.enter(State::WaitingToRetry { why, until: until.unwrap_or(now) });
        Phase::Waiting { until: self.clock.instant() + wait, then: Box::new(then) }
    }

    fn notice_undecodable(&self, shown: &[Decoded<K>]) {
        for object in shown {
            if let Decoded::Undecodable(object) = object {
                self.shared.count(|counters| counters.undecodable += 1);
                let key = object.key();
                tracing::warn!(kind = self.shared.kind(), %key, error = object.error, "object cannot be decoded");
            }
        }
    }
}

#[cfg(test)]
mod tests;
