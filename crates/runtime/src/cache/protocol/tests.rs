use std::collections::VecDeque;

use futures::stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Status as ApiStatus;
use parking_lot::Mutex;

use super::super::decoded::UndecodableObject;
use super::super::list_watch::Page;
use super::super::status::{Counters, Trust};
use super::super::{Cache, CacheBuilder, Caches, Delta, Removal, Watch};
use super::*;
use crate::Tasks;

mod outages;

/// One response of the scripted server.
enum Answer {
    Page(Result<Page<ConfigMap>, ListWatchError>),
    Watch(Result<Vec<Result<Event<ConfigMap>, ListWatchError>>, ListWatchError>, After),
}

/// What a watch does after its last event.
#[derive(Clone, Copy)]
enum After {
    /// Ends at the requested timeout.
    OnTime,
    End,
    Silence,
}

/// A server with scripted responses. It hangs after the last one.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn of(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    fn add(&self, answer: Answer) {
        self.answers.lock().push_back(answer);
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

impl ListWatch<ConfigMap> for Script {
    async fn list(&self, ask: ListAsk) -> Result<Page<ConfigMap>, ListWatchError> {
        let limit = ask.limit.map_or("all".to_owned(), |limit| limit.to_string());
        let next = ask.next.map(|token| format!(" from {token}")).unwrap_or_default();
        self.asked.lock().push(format!("list {limit}{next}{}", if ask.cached { " cached" } else { "" }));
        let answer = self.answers.lock().pop_front();
        match answer {
            Some(Answer::Page(page)) => page,
            Some(Answer::Watch(..)) => panic!("the script expected a watch"),
            None => std::future::pending().await,
        }
    }

    async fn watch(&self, ask: WatchAsk) -> Result<Events<ConfigMap>, ListWatchError> {
        self.asked.lock().push(match ask.from {
            Start::After(version) => format!("watch {}", version.as_str()),
            Start::Everything => "watch everything".to_owned(),
        });
        let answer = self.answers.lock().pop_front();
        match answer {
            Some(Answer::Watch(events, after)) => {
                let events = stream::iter(events?);
                let on_time = stream::once(tokio::time::sleep(ask.lasting)).filter_map(|()| std::future::ready(None));
                Ok(match after {
                    After::End => events.boxed(),
                    After::OnTime => events.chain(on_time).boxed(),
                    After::Silence => events.chain(stream::pending()).boxed(),
                })
            }
            Some(Answer::Page(_)) => panic!("the script expected a list"),
            None => std::future::pending().await,
        }
    }
}

fn map(name: &str, version: u64) -> Decoded<ConfigMap> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(format!("uid-{name}"));
    map.metadata.resource_version = Some(version.to_string());
    Decoded::Whole(map)
}

fn page(version: u64, next: Option<&str>, items: Vec<Decoded<ConfigMap>>) -> Answer {
    let version = Version::new(version.to_string());
    Answer::Page(Ok(Page { version, next: next.map(str::to_owned), items }))
}

fn watch(events: Vec<Event<ConfigMap>>, after: After) -> Answer {
    Answer::Watch(Ok(events.into_iter().map(Ok).collect()), after)
}

fn bookmark(version: u64) -> Event<ConfigMap> {
    Event::Bookmark { version: Version::new(version.to_string()), complete: false }
}

fn complete(version: u64) -> Event<ConfigMap> {
    Event::Bookmark { version: Version::new(version.to_string()), complete: true }
}

fn refused(code: u16, message: &str) -> ListWatchError {
    ListWatchError::Refused(Box::new(ApiStatus::failure(message, "Reason").with_code(code)))
}

/// A cache of a scripted server, and the deltas of its handlers.
struct Fixture {
    cache: Cache<ConfigMap>,
    script: Script,
    seen: Arc<Mutex<Vec<String>>>,
    tasks: Tasks,
}

impl Fixture {
    fn new(script: Script) -> Self {
        Self::with(script, Cache::builder())
    }

    fn with(script: Script, builder: CacheBuilder<ConfigMap>) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let (cache, reflector) = builder
            .on_delta(move |key, delta| {
                log.lock().push(match delta {
                    Delta::Added(_) => format!("+{key}"),
                    Delta::Changed { .. } | Delta::Fixed { .. } => format!("~{key}"),
                    Delta::Removed { how: Removal::Deleted, .. } => format!("-{key}"),
                    Delta::Removed { how: Removal::Vanished | Removal::Forgotten, .. } => format!("?{key}"),
                    Delta::Undecodable { .. } | Delta::RemovedUndecodable { .. } => format!("!{key}"),
                });
            })
            .build();
        let tasks = Tasks::new();
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        tasks.spawn("reflector", reflector.run_on(script.clone(), clock, Random::seeded(7), tasks.stopping()));
        Self { cache, script, seen, tasks }
    }

    /// Advances the time.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn settle(&self) {
        self.pass(Duration::from_millis(1)).await;
    }

    fn names(&self) -> Vec<String> {
        self.cache.list().iter().filter_map(|map| map.metadata.name.clone()).collect()
    }

    fn counters(&self) -> Counters {
        self.cache.status().counters
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }
}

const MINUTE: Duration = Duration::from_mins(1);

/// Shows CAC-1.
#[tokio::test(start_paused = true)]
async fn a_list_is_read_page_by_page_and_watched_from_its_version() {
    let fixture = Fixture::new(Script::of([
        page(10, Some("t1"), vec![map("a", 1)]),
        page(10, None, vec![map("b", 2)]),
        watch(vec![Event::Applied(map("c", 11)), Event::Ended(map("a", 12))], After::Silence),
    ]));
    assert!(!fixture.cache.is_synced());
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "list 500 from t1", "watch 10"]);
    assert_eq!(fixture.seen(), ["+a", "+b", "+c", "-a"]);
    assert_eq!(fixture.names(), ["b", "c"]);
    assert_eq!(fixture.cache.status().state, State::Watching);
    assert_eq!(fixture.cache.synced().await, Ok(()));
}

/// Shows CAC-1.
#[tokio::test(start_paused = true)]
async fn pages_that_do_not_fit_together_are_watched_from_the_oldest() {
    for (first, second) in [(10, 12), (12, 10)] {
        let fixture = Fixture::new(Script::of([page(first, Some("t"), vec![]), page(second, None, vec![])]));
        fixture.settle().await;
        assert_eq!(fixture.script.asked(), ["list 500", "list 500 from t", "watch 10"]);
    }
}

/// Shows CAC-1.
#[tokio::test(start_paused = true)]
async fn a_list_that_expires_half_way_is_read_again_in_one_piece() {
    let fixture = Fixture::new(Script::of([
        page(10, Some("t1"), vec![map("gone-by-now", 1)]),
        Answer::Page(Err(ListWatchError::Gone)),
        page(20, None, vec![map("a", 15)]),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "list 500 from t1", "list all", "watch 20"]);
    assert_eq!(fixture.names(), ["a"]);
}

/// Shows CAC-1.
#[tokio::test(start_paused = true)]
async fn half_a_list_changes_nothing() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![map("a", 1)]),
        Answer::Watch(Ok(vec![Err(ListWatchError::Gone)]), After::End),
        page(20, Some("t1"), vec![map("b", 2)]),
        Answer::Page(Err(refused(500, "broken"))),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.names(), ["a"]);
    assert_eq!(fixture.seen(), ["+a"]);
    let waiting = fixture.cache.status().state;
    assert!(matches!(&waiting, State::WaitingToRetry { why, .. } if why.contains("500") && why.contains("broken")));
    assert!(fixture.cache.is_synced(), "a synced cache can be used during a relist");
}

#[tokio::test(start_paused = true)]
async fn ended_watch_resumes_without_a_list() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![]),
        watch(vec![Event::Applied(map("a", 11))], After::OnTime),
        watch(vec![Event::Applied(map("b", 12))], After::Silence),
    ]));
    fixture.pass(3 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..3], ["list 500", "watch 10", "watch 11"]);
    assert_eq!(fixture.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_early_is_followed_by_a_small_list() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![]),
        watch(vec![Event::Applied(map("a", 11))], After::End),
        page(11, Some("next"), vec![map("a", 11)]),
        watch(vec![Event::Applied(map("b", 12))], After::Silence),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 1", "watch 11"]);
    assert_eq!(fixture.names(), ["a", "b"]);
}

/// Shows CAC-17.
#[tokio::test(start_paused = true)]
async fn restored_server_is_detected_after_a_reconnect() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![]),
        watch(vec![Event::Applied(map("lost", 30))], After::End),
        page(20, None, vec![]), // the small list shows that the server was restored
        page(21, None, vec![map("kept", 15)]),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 1", "list 500", "watch 21"]);
    assert_eq!(fixture.names(), ["kept"]);
    assert_eq!(fixture.counters().regressions, 1);
}

#[tokio::test(start_paused = true)]
async fn broken_watch_resumes_after_a_backoff() {
    let broken = Err(ListWatchError::Unreachable("connection reset".to_owned()));
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![]),
        Answer::Watch(Ok(vec![Ok(Event::Applied(map("a", 11))), broken]), After::End),
        page(11, Some("more"), vec![map("a", 11)]),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10"]);
    fixture.pass(Duration::from_secs(2)).await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 1", "watch 11"]);
    assert_eq!(fixture.counters().regressions, 0);
}

#[tokio::test(start_paused = true)]
async fn bookmark_advances_the_resume_version() {
    let fixture = Fixture::new(Script::of([page(10, None, vec![]), watch(vec![bookmark(50)], After::OnTime)]));
    fixture.pass(3 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..3], ["list 500", "watch 10", "watch 50"]);
    assert_eq!(fixture.counters().bookmarks, 1);
}

/// Shows CAC-3.
#[tokio::test(start_paused = true)]
async fn expired_version_causes_a_relist_that_removes_objects() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![map("a", 1), map("b", 2)]),
        Answer::Watch(Err(ListWatchError::Gone), After::End),
        page(20, None, vec![map("b", 2), map("c", 15)]),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 500", "watch 20"]);
    assert_eq!(fixture.seen(), ["+a", "+b", "?a", "+c"]);
    assert_eq!(fixture.counters().expirations, 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_costs_a_list_after_a_pause() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![]),
        Answer::Watch(Ok(vec![Err(refused(500, "storage"))]), After::Silence),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked().len(), 2);
    fixture.pass(Duration::from_secs(2)).await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 500"]);
}

/// Shows CAC-23.
#[tokio::test(start_paused = true)]
async fn cache_keeps_all_objects_when_an_item_has_no_name() {
    let nameless = |what: &str| ListWatchError::Garbled(format!("{what} without a name"));
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![map("a", 1), map("b", 2)]),
        Answer::Watch(Ok(vec![Err(nameless("an event"))]), After::Silence),
        Answer::Page(Err(nameless("an item"))),
    ]));
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.script.asked()[..3], ["list 500", "watch 10", "list 500"]);
    assert_eq!(
        (fixture.names(), fixture.seen()),
        (vec!["a".to_owned(), "b".to_owned()], vec!["+a".into(), "+b".into()])
    );
    assert!(matches!(fixture.cache.watch(), Watch::Disconnected { .. }), "required to freeze the controller");
}

/// Shows CAC-9.
#[tokio::test(start_paused = true)]
async fn object_nested_too_deeply_counts_as_undecodable() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    let read = |version: u64| {
        let meta = format!(r#"{{"name":"a","uid":"uid-a","resourceVersion":"{version}","managedFields":[{deep}]}}"#);
        Decoded::read(&format!(r#"{{"metadata":{meta},"data":{{"x":{deep}}}}}"#)).unwrap()
    };
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![map("a", 1), map("b", 2)]),
        Answer::Watch(Ok(vec![Ok(Event::Applied(read(11))), Err(ListWatchError::Gone)]), After::End),
        page(20, None, vec![read(11), map("b", 2)]),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 500", "watch 20"]);
    assert_eq!(fixture.seen(), ["+a", "+b", "!a"]);
    assert_eq!((fixture.cache.len(), fixture.cache.status().undecodable), (2, 1));
}

/// Shows CAC-13.
#[tokio::test(start_paused = true)]
async fn a_watch_the_server_forgot_is_marked_failed_and_opened_again() {
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![map("a", 5)]),
        watch(vec![], After::Silence),
        page(20, Some("more"), vec![]),
    ]));
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.script.asked().len(), 2);
    fixture.pass(2 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..4], ["list 500", "watch 10", "list 1", "watch 10"]);
    assert_eq!((fixture.counters().stalls, fixture.counters().lists, fixture.names().len()), (1, 1, 1));
}

/// Shows CAC-6.
#[tokio::test(start_paused = true)]
async fn restored_server_is_detected_after_a_silent_watch() {
    let fixture = Fixture::new(Script::of([
        page(100, None, vec![map("a", 90)]),
        watch(vec![], After::Silence),
        page(40, None, vec![map("a", 30)]),
        page(40, None, vec![map("a", 30)]),
    ]));
    fixture.pass(3 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..5], ["list 500", "watch 100", "list 1", "list 500", "watch 40"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 1));
    assert_eq!(fixture.seen(), ["+a", "~a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_bookmark_needs_no_proof() {
    let spoken = || watch(vec![bookmark(10)], After::Silence);
    let fixture = Fixture::new(Script::of([page(10, None, vec![]), spoken(), spoken()]));
    fixture.pass(3 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..3], ["list 500", "watch 10", "watch 10"]);
}

/// Shows CAC-14.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_hammered() {
    let ends = std::iter::repeat_with(|| watch(vec![], After::End)).take(1000);
    let fixture = Fixture::new(Script::of(std::iter::once(page(10, None, vec![])).chain(ends)));
    fixture.pass(10 * MINUTE).await;
    let asked = fixture.script.asked().len();
    assert!((15..50).contains(&asked), "{asked} requests in ten minutes");
}

/// Shows CAC-14.
#[tokio::test(start_paused = true)]
async fn a_server_whose_history_is_always_gone_is_not_hammered() {
    let cycle = || [page(10, None, vec![]), Answer::Watch(Err(ListWatchError::Gone), After::End)];
    let fixture = Fixture::new(Script::of(std::iter::repeat_with(cycle).take(500).flatten()));
    fixture.pass(10 * MINUTE).await;
    let asked = fixture.script.asked().len();
    assert!((20..100).contains(&asked), "{asked} requests in ten minutes");
}

/// Shows CAC-2.
#[tokio::test(start_paused = true)]
async fn streamed_list_is_applied_at_its_bookmark() {
    let builder = Cache::builder().listing(Listing::Streamed);
    let events = vec![
        Event::Applied(map("a", 1)),
        bookmark(5),
        Event::Applied(map("b", 7)),
        complete(10),
        Event::Applied(map("c", 11)),
    ];
    let fixture = Fixture::with(Script::of([watch(events, After::OnTime)]), builder);
    fixture.pass(3 * MINUTE).await;
    assert_eq!(fixture.script.asked()[..2], ["watch everything", "watch 11"]);
    assert_eq!(fixture.seen(), ["+a", "+b", "+c"]);
    assert_eq!((fixture.counters().lists, fixture.counters().events), (1, 1));
}

/// Shows CAC-2.
#[tokio::test(start_paused = true)]
async fn pages_are_used_when_streamed_lists_are_rejected() {
    for code in [400, 422] {
        let builder = Cache::builder().listing(Listing::Streamed);
        let no = Answer::Watch(Err(refused(code, "sendInitialEvents is forbidden")), After::End);
        let gone = Answer::Watch(Err(ListWatchError::Gone), After::End);
        let fixture = Fixture::with(Script::of([no, page(10, None, vec![]), gone, page(20, None, vec![])]), builder);
        fixture.settle().await;
        assert_eq!(fixture.script.asked(), ["watch everything", "list 500", "watch 10", "list 500", "watch 20"]);
    }
}

/// Shows CAC-2.
#[tokio::test(start_paused = true)]
async fn pages_are_used_when_streamed_lists_are_ignored() {
    let builder = Cache::builder().listing(Listing::Streamed);
    let unmarked = watch(vec![Event::Applied(map("a", 1))], After::Silence);
    let fixture = Fixture::with(Script::of([unmarked, page(10, None, vec![map("a", 1)])]), builder);
    fixture.settle().await;
    assert!(!fixture.cache.is_synced() && fixture.names().is_empty(), "without the bookmark the list is incomplete");
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.script.asked()[..3], ["watch everything", "list 500", "watch 10"]);
    assert!(fixture.cache.is_synced());
}

/// Shows CAC-6.
#[tokio::test(start_paused = true)]
async fn old_list_is_untrusted_until_a_quorum_list() {
    let builder = Cache::builder().reading(Reading::Cached);
    let script = Script::of([
        page(100, None, vec![map("a", 90), map("b", 50)]),
        Answer::Watch(Err(ListWatchError::Gone), After::End),
        page(40, None, vec![map("a", 30)]),
    ]);
    let fixture = Fixture::with(script, builder);
    fixture.settle().await;
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Doubtful, 1));
    assert_eq!(fixture.names(), ["a", "b"], "the older list is not applied");
    assert!(fixture.cache.status().waiting_for().unwrap().contains("older"));
    let mut caches = Caches::new();
    caches.add(&fixture.cache);
    assert_eq!(caches.trust(), Trust::Doubtful);
    fixture.script.add(page(41, None, vec![map("a", 30)]));
    fixture.pass(2 * Duration::from_secs(1)).await;
    assert_eq!(fixture.script.asked(), ["list all cached", "watch 100", "list all cached", "list 500", "watch 41"]);
    assert_eq!(caches.all_firm().await, Ok(()));
    assert_eq!((fixture.cache.trust(), fixture.names()), (Trust::Firm, vec!["a".to_owned()]));
    assert_eq!(fixture.seen(), ["+a", "+b", "?b", "~a"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_the_past_is_doubted_too() {
    let fixture = Fixture::new(Script::of([
        page(100, None, vec![]),
        watch(vec![Event::Applied(map("a", 30))], After::Silence),
        page(31, None, vec![map("a", 30)]),
    ]));
    fixture.pass(Duration::from_secs(2)).await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 100", "list 500", "watch 31"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_does_not_undo_our_write_and_is_no_regression() {
    let script = Script::of([page(10, None, vec![map("a", 1)])]);
    let fixture = Fixture::with(script, Cache::builder().reading(Reading::Cached));
    fixture.settle().await;
    let Decoded::Whole(mine) = map("mine", 30) else { panic!() };
    fixture.cache.wrote(mine);
    fixture.script.add(Answer::Watch(Err(ListWatchError::Gone), After::End));
    fixture.script.add(page(20, None, vec![map("a", 1)]));
    fixture.script.add(watch(vec![Event::Applied(map("mine", 30))], After::Silence));
    fixture.pass(MINUTE).await; // the hanging watch times out first
    assert_eq!(fixture.names(), ["a", "mine"]);
    assert_eq!(fixture.seen(), ["+a", "+mine"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 0));
}

/// Shows CAC-11.
#[tokio::test(start_paused = true)]
async fn a_refresh_is_answered_by_a_quorum_list_that_began_after_it() {
    let script = Script::of([page(10, None, vec![map("a", 1)]), watch(vec![], After::Silence)]);
    let fixture = Fixture::with(script, Cache::builder().reading(Reading::Cached));
    fixture.settle().await;
    fixture.script.add(page(20, None, vec![map("a", 1), map("b", 15)]));
    assert_eq!(fixture.cache.refresh().await, Ok(()));
    assert_eq!(fixture.names(), ["a", "b"]);
    fixture.settle().await;
    assert_eq!(fixture.script.asked(), ["list all cached", "watch 10", "list 500", "watch 20"]);
}

/// Shows CAC-11.
#[tokio::test(start_paused = true)]
async fn a_refresh_is_not_answered_by_a_list_that_began_before_it() {
    let fixture = Fixture::new(Script::default());
    fixture.settle().await; // the first list is in progress
    let cache = fixture.cache.clone();
    let (done, mut is_done) = tokio::sync::oneshot::channel();
    fixture.tasks.spawn("refresh", async move {
        cache.refresh().await.unwrap();
        done.send(()).unwrap();
    });
    fixture.pass(2 * MINUTE).await;
    fixture.script.add(page(10, None, vec![]));
    fixture.script.add(page(11, None, vec![]));
    fixture.pass(5 * MINUTE).await;
    assert!(is_done.try_recv().is_ok());
    // The first list timed out; the second one began after the refresh was requested.
    assert_eq!(fixture.script.asked()[..2], ["list 500", "list 500"]);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_stopped_cache_get_an_error() {
    let fixture = Fixture::new(Script::default());
    fixture.settle().await;
    fixture.tasks.stop();
    assert_eq!(fixture.cache.synced().await.unwrap_err().to_string(), "the cache of configmaps was stopped");
    assert!(fixture.cache.refresh().await.is_err());
    assert_eq!(fixture.cache.status().state, State::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_counted_each_time_and_waits_longer_each_time() {
    let no = || Answer::Page(Err(refused(403, "configmaps is forbidden")));
    let fixture = Fixture::new(Script::of(std::iter::repeat_with(no).take(100)));
    fixture.pass(10 * MINUTE).await;
    let failures = fixture.counters().failures;
    assert!((15..30).contains(&failures), "{failures} attempts in ten minutes");
    let waiting = fixture.cache.status().waiting_for().unwrap();
    assert!(waiting.contains("403") && waiting.contains("configmaps is forbidden"), "{waiting}");
}

/// Collects log lines of level warn and above.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Warnings {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Warnings {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Shows CAC-10.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_said_once_until_it_changes() {
    let warnings = Warnings::default();
    let writer = warnings.clone();
    // Without the time, because its digits may look like a status code.
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).without_time();
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let no = |code| move || Answer::Page(Err(refused(code, "no")));
    let refusals = std::iter::repeat_with(no(403)).take(10).chain(std::iter::repeat_with(no(404)).take(10));
    let fixture =
        Fixture::new(Script::of(refusals.chain([page(10, None, vec![]), watch(vec![bookmark(11)], After::Silence)])));
    fixture.pass(30 * MINUTE).await;
    let said = warnings.lines();
    let about = |code: &str| said.iter().filter(|line| line.contains(code)).count();
    assert_eq!((about("403"), about("404")), (1, 1), "{said:#?}");
    assert!(fixture.cache.is_synced());
}

/// Shows CAC-14.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it_within_reason() {
    for (asks, gets) in [(40, 40), (u32::MAX, 300)] {
        let text = format!(r#"{{"code":429,"message":"slow down","details":{{"retryAfterSeconds":{asks}}}}}"#);
        let status: ApiStatus = serde_json::from_str(&text).unwrap();
        let fixture = Fixture::new(Script::of([Answer::Page(Err(ListWatchError::Refused(Box::new(status))))]));
        fixture.pass(Duration::from_secs(gets - 1)).await;
        assert_eq!(fixture.script.asked().len(), 1);
        fixture.pass(Duration::from_secs(2)).await;
        assert_eq!(fixture.script.asked().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_disappeared_is_listed_when_it_is_back() {
    let missing = Answer::Watch(Err(refused(404, "the server could not find the requested resource")), After::End);
    let fixture = Fixture::new(Script::of([page(10, None, vec![map("a", 1)]), missing, page(20, None, vec![])]));
    fixture.pass(Duration::from_secs(2)).await;
    assert_eq!(fixture.script.asked(), ["list 500", "watch 10", "list 500", "watch 20"]);
    assert_eq!(fixture.seen(), ["+a", "?a"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_is_given_up() {
    let fixture = Fixture::new(Script::default());
    fixture.pass(2 * MINUTE).await;
    assert!(fixture.script.asked().len() >= 2);
    assert!(fixture.counters().failures >= 1);
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_are_counted_and_present() {
    let object =
        UndecodableObject { name: "a".to_owned(), resource_version: "1".to_owned(), ..UndecodableObject::default() };
    let fixture = Fixture::new(Script::of([
        page(10, None, vec![Decoded::Undecodable(object)]),
        watch(vec![Event::Applied(map("a", 11))], After::Silence),
    ]));
    fixture.settle().await;
    assert_eq!(fixture.seen(), ["!a", "~a"]);
    assert_eq!((fixture.counters().undecodable, fixture.cache.status().undecodable, fixture.cache.len()), (1, 0, 1));
}
