//! The list and watch protocol as a state machine.
//!
//! ```text
//!            ┌──────────── 410, an error in the stream, a version from the past, a refresh ───────────┐
//!            ▼                                                                                        │
//!   ┌──► Listing ── all pages ──► Opening ── accepted ──► Watching ── ended, broke off, fell silent ──┤
//!   │        └───────── streamed list: the same stream continues ────►    (list) or Opening or Probing
//!   └── Waiting ◄── any failure: each cache by itself, with backoff, or until another one gets a response
//! ```
//!
//! [`Protocol::step`] does one thing (one list, one watch request, one event, one wait) and returns the next phase. The
//! API server is behind [`ListWatch`], so that tests can script it step by step.
//!
//! If a watch ends normally, the next one resumes at its version. If the connection broke, a minimal list is requested
//! first. Only an unusable history requires a full list. After [`CUT_OFF`] without a response the history may have
//! changed, and everything is listed (ADR 0074). A list is collected completely before anything is changed.

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

/// A watch that ends at most this long before the requested time ended normally.
const PUNCTUAL_WITHIN: Duration = Duration::from_secs(2);
/// A watch that ends sooner than this without an event indicates a server error.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// Time without a response after which the API server may have been restored from a backup. A restore is possible only
/// while the server does not respond. Its new history may already have passed the version of the cache, so that the version does not
/// reveal the restore.
const CUT_OFF: Duration = Duration::from_secs(5);

/// Upper limit for the Retry-After interval of the server.
const LONGEST_REQUESTED_WAIT: Duration = Duration::from_mins(5);

/// The next step of the protocol.
pub(super) enum Phase<K> {
    /// List all objects.
    Listing(Reading),
    /// Request a watch from this version.
    Opening(Version),
    /// Process watch events.
    Watching(Watching<K>),
    /// A watch from this version ended without an event, or the connection broke: check whether the server still has
    /// that version.
    Probing(Version),
    /// Back off.
    Waiting { until: Instant, then: Box<Phase<K>> },
}

pub(super) struct Watching<K> {
    events: Events<K>,
    /// The last version of the watch, at which the next watch resumes.
    at: Version,
    since: Instant,
    /// The server has ended the watch by this time, or the connection is dead.
    until: Instant,
    received: bool,
}

/// Why listing all objects failed.
enum Unlisted {
    ListWatchError(ListWatchError),
    /// The server does not support streamed lists.
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
    /// The watch stream that follows a streamed list.
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
    /// The error that was logged and still persists.
    said: Option<String>,
    /// Time since which the server has not responded.
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
            Phase::Watching(watching) => self.process(watching).await,
            Phase::Probing(version) => self.probe(version).await,
            Phase::Waiting { until, then } => {
                self.wait_until(until).await;
                *then
            }
        }
    }

    /// Waits until `until`. A cache that is cut off also stops waiting when another cache gets a response. A cache that
    /// just started to wait ignores that signal: with a server that answers every second request it would retry without
    /// a pause.
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
        // A streamed list without a version is as fresh as a quorum list.
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
                    "the API server does not support streamed lists; using paged lists"
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
                    // The cause of the backoff is over, and no worker acts before everything was relisted.
                    self.backoff.reset();
                }
                self.doubt()
            }
        }
    }

    /// Requests all pages of a plain list.
    async fn page_through(&self, reading: Reading) -> Result<Listed<K>, ListWatchError> {
        let Collected { version, items } = pages::collect(&self.list_watch, &self.settings, reading).await?;
        self.notice_undecodable(&items);
        Ok(Listed { version, items, stream: None })
    }

    /// Requests a list as the beginning of a watch.
    async fn stream(&self) -> Result<Listed<K>, Unlisted> {
        let mut watching = match self.request(Start::Everything).await {
            Ok(watching) => watching,
            Err(ListWatchError::Refused(status)) if matches!(status.code, 400 | 422) => {
                return Err(Unlisted::CannotStream(status.message));
            }
            Err(error) => return Err(error.into()),
        };
        let mut collected: BTreeMap<Key, Decoded<K>> = BTreeMap::new();
        let deadline = watching.since + self.settings.stream_within;
        loop {
            match timeout_at(deadline, watching.events.next()).await {
                Ok(Some(Ok(Event::Bookmark { version, complete: true }))) => {
                    let items: Vec<_> = collected.into_values().collect();
                    self.notice_undecodable(&items);
                    watching.at = version.clone();
                    watching.received = true;
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
                Ok(None) => return Err(ListWatchError::Unreachable("a streamed list was incomplete".to_owned()).into()),
                Err(_) => {
                    return Err(Unlisted::CannotStream("the end of the initial events was not marked".to_owned()));
                }
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
            // The kind itself was deleted (its CRD). If it returns, its objects are different ones.
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
        Ok(Watching { events, at, since, until: since + lasting + self.settings.watch_grace, received: false })
    }

    /// Waits for one event.
    async fn process(&mut self, mut watching: Watching<K>) -> Phase<K> {
        self.shared.enter(State::Watching);
        if self.shared.refresh_is_wanted() {
            return Phase::Listing(Reading::Quorum);
        }
        let received = tokio::select! {
            biased;
            _ = self.wanted.changed() => return Phase::Watching(watching),
            received = timeout_at(watching.until, watching.events.next()) => received,
        };
        let event = match received {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(ListWatchError::Gone))) => return self.expired(),
            Ok(Some(Err(error @ ListWatchError::Unreachable(_)))) => {
                return self.set_back("watch", &error, Phase::Probing(watching.at));
            }
            // An error in the stream, or an event that cannot be decoded: the lost events are unknown.
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
        watching.received = true;
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

    /// Resumes after a watch that ended without an error. If it ended before its time, the server may have restarted
    /// with an older etcd, so it is probed first.
    fn go_on_after(&mut self, watching: Watching<K>) -> Phase<K> {
        let Watching { at, since, until, received, .. } = watching;
        let early = self.clock.instant() + self.settings.watch_grace + PUNCTUAL_WITHIN < until;
        if received {
            return if early { Phase::Probing(at) } else { Phase::Opening(at) };
        }
        if self.clock.instant() >= since + TOO_SHORT {
            self.backoff.reset();
            return Phase::Probing(at);
        }
        let wait = self.backoff.after_surprise();
        self.wait(wait, "the API server ends each watch immediately".to_owned(), Phase::Opening(at))
    }

    /// Requests a list of one object to compare its version. Healthy servers send a bookmark before a watch ends. A
    /// server with a restored etcd accepts a watch from a future version and sends nothing until it reaches that
    /// version. After that the restore cannot be detected any more, and objects that it removed would stay in the
    /// cache. A restore requires that the server is unavailable for a moment, so the probe is sent as soon as it
    /// responds again.
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
            "the API server returned an older state than before; destructive actions are suspended until all kinds are relisted"
        );
        self.shared.doubted();
        self.shared.count(|counters| counters.regressions += 1);
        let wait = self.backoff.after_surprise();
        // The guarantees of streamed lists after a restore are unknown.
        self.settings.listing = Listing::Paged;
        self.wait(
            wait,
            "the API server returned an older state than before".to_owned(),
            Phase::Listing(Reading::Quorum),
        )
    }

    fn set_back(&mut self, what: &str, error: &ListWatchError, then: Phase<K>) -> Phase<K> {
        self.shared.count(|counters| counters.failures += 1);
        let why = format!("failed to {what}: {error}");
        if error.is_unanswered() {
            self.unanswered_since.get_or_insert(self.clock.instant());
        }
        self.shared.broke(error.disconnect_reason(), &why, self.clock.now());
        // A missing permission persists for hours. Log it when it starts and when it changes.
        if self.said.as_ref() == Some(&why) {
            tracing::debug!(kind = self.shared.kind(), why, "request to the API server still fails");
        } else {
            tracing::warn!(kind = self.shared.kind(), why, "request to the API server failed; retrying with backoff");
            self.said = Some(why.clone());
        }
        let wait = self.backoff.after_failure().max(error.retry_after().min(LONGEST_REQUESTED_WAIT));
        self.wait(wait, why, then)
    }

    fn was_cut_off(&self) -> bool {
        self.unanswered_since.is_some_and(|since| self.clock.instant() >= since + CUT_OFF)
    }

    fn answered(&mut self) {
        self.shared.responded(self.clock.now());
        if self.was_cut_off() {
            self.retry_signal.answered();
        }
        self.unanswered_since = None;
    }

    fn recovered(&mut self) {
        self.answered();
        self.backoff.reset();
        if self.said.take().is_some() {
            tracing::info!(kind = self.shared.kind(), "the API server responds again");
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
                tracing::warn!(kind = self.shared.kind(), %key, error = object.error, "failed to decode object");
            }
        }
    }
}

#[cfg(test)]
mod tests;
