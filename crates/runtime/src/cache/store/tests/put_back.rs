//! An API server that was put back, and whose versions have come further than we were.

use super::*;

/// Shows CAC-21.
#[test]
fn a_list_that_is_later_but_shows_an_object_as_it_was_before_is_of_another_history() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 95)]);
    assert_eq!(list(&mut store, 120, vec![map("a", "ua", 70)]), (Freshness::Regressed, vec![]));
    assert_eq!(list(&mut store, 120, vec![map("a", "ua", 70)]).1, ["b Forgotten 95", "a changed 90->70"]);
    // Another one of that name says nothing, and neither does a list from before our write.
    assert_eq!(list(&mut store, 130, vec![map("a", "other", 60)]).0, Freshness::Taken);
    write(&mut store, map("a", "other", 150));
    assert_eq!(list(&mut store, 140, vec![map("a", "other", 60)]), (Freshness::Taken, vec![]));
}

/// Shows CAC-21.
#[test]
fn what_had_vanished_is_forgotten_when_it_turns_out_that_the_server_was_put_back() {
    let vanishing = || {
        let mut store = store();
        list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 95)]);
        assert_eq!(list(&mut store, 120, vec![]).1, ["a Vanished 90", "b Vanished 95"]);
        store
    };
    let mut warned = vanishing();
    assert!(warned.forgotten_before().is_empty(), "nobody doubts yet");
    warned.suspect();
    assert_eq!(said(warned.forgotten_before()), ["a Forgotten 90", "b Forgotten 95"]);
    let mut later = vanishing();
    later.passed(&Version::new("130"));
    later.suspect();
    assert!(later.forgotten_before().is_empty(), "that was another list's");
}

/// Shows CAC-6.
#[test]
fn a_list_older_than_what_was_shown_is_not_believed_and_the_next_one_is() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90), map("b", "ub", 50)]);
    write(&mut store, map("mine", "um", 110));
    assert_eq!(list(&mut store, 40, vec![map("a", "ua", 30)]), (Freshness::Regressed, vec![]));
    assert_eq!(store.len(), 3, "nothing was taken from it");
    assert!(store.floors.is_empty(), "floors of a lost history protect nothing");
    let (freshness, deltas) = list(&mut store, 40, vec![map("a", "ua", 30)]);
    assert_eq!(freshness, Freshness::Taken);
    assert_eq!(deltas, ["b Forgotten 50", "mine Forgotten 110", "a changed 90->30"]);
    assert_eq!(apply(&mut store, map("a", "ua", 41)).0, Freshness::Taken, "the new history counts from where it is");
}
