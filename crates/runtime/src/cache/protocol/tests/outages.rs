//! Tests of outages: a server that did not respond for a while may have been restored (ADR 0074).

use super::*;

/// An outage of about seven seconds: the watch breaks, and three attempts fail.
fn outage() -> Vec<Answer> {
    let unreachable = || ListWatchError::Unreachable("connection refused".to_owned());
    let mut outage = vec![Answer::Watch(Ok(vec![Err(unreachable())]), After::End)];
    outage.extend((0..3).map(|_| Answer::Page(Err(unreachable()))));
    outage
}

/// A server with the same object in the same version before and after an outage.
fn unchanged_after_outage() -> Fixture {
    let mut script = vec![page(100, None, vec![map("a", 90)])];
    script.extend(outage());
    script.push(page(120, None, vec![map("a", 90)]));
    Fixture::new(Script::of(script))
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn relist_follows_five_seconds_without_a_response() {
    let mut script = vec![page(100, None, vec![map("a", 90), map("lost", 95)])];
    script.extend(outage());
    // Restored to version 80; its version is newer than that of the cache when it is listed.
    script.push(page(120, None, vec![map("a", 110)]));
    let fixture = Fixture::new(Script::of(script));
    fixture.pass(MINUTE).await;
    let asked = ["list 500", "watch 100", "list 1", "list 1", "list 500", "list 500", "watch 120"];
    assert_eq!(fixture.script.asked(), asked);
    assert_eq!(fixture.names(), ["a"]);
    assert_eq!(fixture.seen(), ["+a", "+lost", "?lost", "~a"]);
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn server_errors_count_as_no_response_but_rejections_do_not() {
    for (code, listed) in [(500, true), (503, true), (403, false), (429, false)] {
        let mut script = vec![page(100, None, vec![])];
        script.extend((0..3).map(|_| Answer::Watch(Err(refused(code, "no")), After::End)));
        script.push(if listed { page(120, None, vec![]) } else { watch(vec![], After::Silence) });
        let fixture = Fixture::new(Script::of(script));
        fixture.pass(MINUTE).await;
        assert_eq!(fixture.counters().lists, if listed { 2 } else { 1 }, "{code}: {:?}", fixture.script.asked());
    }
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn deleted_object_reappears_in_a_restored_server() {
    let fixture = unchanged_after_outage();
    fixture.settle().await;
    fixture.cache.deleted(&Key::cluster("a"), "uid-a");
    assert!(fixture.names().is_empty());
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.names(), ["a"]);
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn same_version_is_replaced_after_an_outage() {
    let fixture = unchanged_after_outage();
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.seen(), ["+a", "~a"]);
}

/// Shows CAC-21.
#[tokio::test(start_paused = true)]
async fn older_object_in_a_newer_list_reveals_a_restore() {
    let mut script = vec![page(100, None, vec![map("a", 90), map("lost", 95)])];
    script.extend(outage());
    let copy = || page(120, None, vec![map("a", 70)]);
    script.extend([copy(), copy()]);
    let fixture = Fixture::new(Script::of(script));
    fixture.pass(Duration::from_secs(20)).await; // backoff before the first list, none before the second
    assert_eq!(fixture.script.asked()[5..], ["list 500", "list 500", "watch 120"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 1));
    assert_eq!(fixture.names(), ["a"]);
}

/// Shows CAC-17.
#[tokio::test(start_paused = true)]
async fn restore_during_a_disconnect_is_detected() {
    let unreachable = || ListWatchError::Unreachable("connection refused".to_owned());
    let fixture = Fixture::new(Script::of([
        page(100, None, vec![map("a", 90), map("b", 95)]),
        Answer::Watch(Ok(vec![Err(unreachable())]), After::End),
        Answer::Page(Err(unreachable())),
        page(40, None, vec![map("a", 30)]),
        page(40, None, vec![map("a", 30)]),
    ]));
    fixture.pass(Duration::from_secs(10)).await;
    assert_eq!(fixture.script.asked()[..5], ["list 500", "watch 100", "list 1", "list 1", "list 500"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 1));
    assert_eq!(fixture.names(), ["a"]);
}

/// A cache with an outage of several attempts and a shared retry signal.
fn outage_of(attempts: usize, signal: &RetrySignal) -> Fixture {
    let unreachable = || ListWatchError::Unreachable("connection refused".to_owned());
    let mut script = vec![page(100, None, vec![map("a", 90)]), Answer::Watch(Ok(vec![Err(unreachable())]), After::End)];
    script.extend((0..attempts).map(|_| Answer::Page(Err(unreachable()))));
    script.push(page(120, None, vec![map("a", 110)]));
    let signal = signal.clone();
    Fixture::with(Script::of(script), Cache::builder().with(|settings| settings.retry_signal = signal))
}

/// Returns the time until the cache watches again.
async fn recovery_time(fixture: &Fixture) -> Duration {
    let start = Instant::now();
    while fixture.script.asked().last().is_none_or(|last| last != "watch 120") {
        fixture.settle().await;
    }
    start.elapsed()
}

/// Shows CAC-22.
#[tokio::test(start_paused = true)]
async fn first_response_wakes_other_reflectors() {
    let signal = RetrySignal::default();
    for (of_second, later) in [(signal.clone(), Duration::ZERO), (RetrySignal::default(), Duration::from_secs(3))] {
        let first = outage_of(5, &signal);
        first.pass(Duration::from_secs(3)).await;
        let second = outage_of(5, &of_second);
        let (one, other) = tokio::join!(recovery_time(&first), recovery_time(&second));
        let difference = other.saturating_sub(one);
        assert!(difference >= later && difference < later + Duration::from_millis(10), "{one:?}, {other:?}");
    }
}

/// Shows CAC-22.
#[tokio::test(start_paused = true)]
async fn reflector_with_a_connection_keeps_its_backoff() {
    let signal = RetrySignal::default();
    let fixture = outage_of(4, &signal);
    fixture.pass(Duration::from_secs(2)).await;
    let asked = fixture.script.asked().len();
    for _ in 0..100 {
        signal.answered();
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.script.asked().len(), asked);
    fixture.pass(Duration::from_secs(4)).await;
    let asked = fixture.script.asked().len();
    signal.answered();
    fixture.settle().await;
    assert_eq!(fixture.script.asked().len(), asked + 1);
}
