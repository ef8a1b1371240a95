//! Tests of an API server that was restored, and whose version is newer than that of the cache.

use super::*;

/// Shows CAC-21.
#[test]
fn newer_list_with_an_older_object_is_a_regression() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 95)]);
    assert_eq!(list(&mut store, 120, vec![map("a", "ua", 70)]), (Freshness::Regressed, vec![]));
    assert_eq!(list(&mut store, 120, vec![map("a", "ua", 70)]).1, ["b Forgotten 95", "a changed 90->70"]);
    // Another object with the same name, or a list from before an own write, is not a regression.
    assert_eq!(list(&mut store, 130, vec![map("a", "other", 60)]).0, Freshness::Taken);
    write(&mut store, map("a", "other", 150));
    assert_eq!(list(&mut store, 140, vec![map("a", "other", 60)]), (Freshness::Taken, vec![]));
}

/// Shows CAC-21.
#[test]
fn vanished_objects_are_forgotten_after_a_restore() {
    let vanishing = || {
        let mut store = store();
        list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 95)]);
        assert_eq!(list(&mut store, 120, vec![]).1, ["a Vanished 90", "b Vanished 95"]);
        store
    };
    let mut suspected = vanishing();
    assert!(suspected.forgotten_before().is_empty(), "no restore is suspected yet");
    suspected.suspect();
    assert_eq!(texts(suspected.forgotten_before()), ["a Forgotten 90", "b Forgotten 95"]);
    let mut later = vanishing();
    later.passed(&Version::new("130"));
    later.suspect();
    assert!(later.forgotten_before().is_empty(), "only the last list counts");
}

/// Shows CAC-6.
#[test]
fn older_list_is_rejected_once_and_then_accepted() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 50)]);
    write(&mut store, map("mine", "um", 110));
    assert_eq!(list(&mut store, 40, vec![map("a", "ua", 30)]), (Freshness::Regressed, vec![]));
    assert_eq!(store.len(), 3, "the list is not applied");
    assert!(store.floors.is_empty(), "floors of a lost history are removed");
    let (freshness, deltas) = list(&mut store, 40, vec![map("a", "ua", 30)]);
    assert_eq!(freshness, Freshness::Taken);
    assert_eq!(deltas, ["b Forgotten 50", "mine Forgotten 110", "a changed 90->30"]);
    assert_eq!(apply(&mut store, map("a", "ua", 41)).0, Freshness::Taken, "the new history is followed");
}
