//! A server that did not answer for a while may have been put back (ADR 0074).

use super::*;

/// A server that is away for about seven seconds: the line breaks, and three attempts fail.
fn away() -> Vec<Answer> {
    let unreachable = || ListWatchError::Unreachable("connection refused".to_owned());
    let mut away = vec![Answer::Watch(Ok(vec![Err(unreachable())]), After::End)];
    away.extend((0..3).map(|_| Answer::Page(Err(unreachable()))));
    away
}

/// A server that shows the same object in the same version before and after.
fn unchanged_after_it_was_away() -> Fixture {
    let mut script = vec![page(100, None, vec![map("a", 90)])];
    script.extend(away());
    script.push(page(120, None, vec![map("a", 90)]));
    Fixture::new(Script::of(script))
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn after_five_seconds_without_an_answer_everything_is_listed_whatever_the_version() {
    let mut script = vec![page(100, None, vec![map("a", 90), map("lost", 95)])];
    script.extend(away());
    // Put back to 80, and further than we were when we ask.
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
async fn a_server_whose_etcd_is_away_has_not_answered_and_one_that_refuses_or_is_busy_has() {
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
async fn what_we_deleted_is_there_again_in_a_copy_that_has_overtaken_us() {
    let fixture = unchanged_after_it_was_away();
    fixture.settle().await;
    fixture.cache.deleted(&Key::cluster("a"), "uid-a");
    assert!(fixture.names().is_empty());
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.names(), ["a"]);
}

/// Shows CAC-20.
#[tokio::test(start_paused = true)]
async fn the_same_version_may_be_another_state_after_the_server_was_away() {
    let fixture = unchanged_after_it_was_away();
    fixture.pass(MINUTE).await;
    assert_eq!(fixture.seen(), ["+a", "~a"]);
}

/// Shows CAC-21.
#[tokio::test(start_paused = true)]
async fn an_object_that_went_back_tells_that_the_server_did_however_far_it_has_come() {
    let mut script = vec![page(100, None, vec![map("a", 90), map("lost", 95)])];
    script.extend(away());
    let copy = || page(120, None, vec![map("a", 70)]);
    script.extend([copy(), copy()]);
    let fixture = Fixture::new(Script::of(script));
    fixture.pass(Duration::from_secs(20)).await; // the pause before the first, and none before the second
    assert_eq!(fixture.script.asked()[5..], ["list 500", "list 500", "watch 120"]);
    assert_eq!((fixture.cache.trust(), fixture.counters().regressions), (Trust::Firm, 1));
    assert_eq!(fixture.names(), ["a"]);
}

/// Shows CAC-17.
#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_while_the_line_was_broken_is_found_out_before_it_catches_up() {
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

/// One whose server is away for a number of attempts, and that tries again with others.
fn away_for(attempts: usize, signal: &RetrySignal) -> Fixture {
    let unreachable = || ListWatchError::Unreachable("connection refused".to_owned());
    let mut script = vec![page(100, None, vec![map("a", 90)]), Answer::Watch(Ok(vec![Err(unreachable())]), After::End)];
    script.extend((0..attempts).map(|_| Answer::Page(Err(unreachable()))));
    script.push(page(120, None, vec![map("a", 110)]));
    let signal = signal.clone();
    Fixture::with(Script::of(script), Cache::builder().with(|settings| settings.retry_signal = signal))
}

/// How long one takes until it is at its end again.
async fn back_after(fixture: &Fixture) -> Duration {
    let start = Instant::now();
    while fixture.script.asked().last().is_none_or(|last| last != "watch 120") {
        fixture.settle().await;
    }
    start.elapsed()
}

/// Shows CAC-22.
#[tokio::test(start_paused = true)]
async fn the_first_that_is_answered_wakes_the_others() {
    let signal = RetrySignal::default();
    for (of_second, later) in [(signal.clone(), Duration::ZERO), (RetrySignal::default(), Duration::from_secs(3))] {
        let first = away_for(5, &signal);
        first.pass(Duration::from_secs(3)).await;
        let second = away_for(5, &of_second);
        let (one, other) = tokio::join!(back_after(&first), back_after(&second));
        let difference = other.saturating_sub(one);
        assert!(difference >= later && difference < later + Duration::from_millis(10), "{one:?}, {other:?}");
    }
}

/// Shows CAC-22.
#[tokio::test(start_paused = true)]
async fn one_that_is_not_cut_off_keeps_its_pause() {
    let signal = RetrySignal::default();
    let fixture = away_for(4, &signal);
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
