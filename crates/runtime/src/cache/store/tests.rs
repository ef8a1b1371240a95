use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;

use super::*;

mod restored;

const BY_COLOUR: Index<ConfigMap> =
    Index::new("by-colour", |map| map.data.iter().filter_map(|data| data.get("colour").cloned()).collect());
const UNDECLARED: Index<ConfigMap> =
    Index::new("undeclared", |map| map.data.iter().filter_map(|data| data.get("colour").cloned()).collect());

/// Changes in `beat` alone are heartbeats.
fn only_beats(old: &ConfigMap, new: &ConfigMap) -> bool {
    let rest = |map: &ConfigMap| {
        let mut data = map.data.clone().unwrap_or_default();
        data.remove("beat");
        data
    };
    rest(old) == rest(new)
}

fn store() -> Store<ConfigMap> {
    Store::new(vec![BY_COLOUR], None, None)
}

fn map(name: &str, uid: &str, version: u64) -> ConfigMap {
    coloured(name, uid, version, "grey")
}

fn coloured(name: &str, uid: &str, version: u64, colour: &str) -> ConfigMap {
    let mut map = ConfigMap { data: Some([("colour".to_owned(), colour.to_owned())].into()), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map.metadata.uid = Some(uid.to_owned());
    map.metadata.resource_version = Some(version.to_string());
    map
}

fn broken(name: &str, uid: &str, version: u64) -> Decoded<ConfigMap> {
    Decoded::Undecodable(UndecodableObject {
        name: name.to_owned(),
        uid: uid.to_owned(),
        resource_version: version.to_string(),
        ..UndecodableObject::default()
    })
}

fn key(name: &str) -> Key {
    Key::cluster(name)
}

/// Returns deltas as texts.
fn texts(deltas: Deltas<ConfigMap>) -> Vec<String> {
    let version = |map: &ConfigMap| map.metadata.resource_version.clone().unwrap_or_default();
    deltas
        .into_iter()
        .map(|(key, delta)| match delta {
            Delta::Added(new) => format!("{key} added {}", version(&new)),
            Delta::Changed { old, new } => format!("{key} changed {}->{}", version(&old), version(&new)),
            Delta::Removed { last, how } => format!("{key} {how:?} {}", version(&last)),
            Delta::Undecodable { old, .. } => format!("{key} undecodable, before: {}", old.is_some()),
            Delta::Fixed { new, .. } => format!("{key} fixed {}", version(&new)),
            Delta::RemovedUndecodable { how, .. } => format!("{key} undecodable {how:?}"),
        })
        .collect()
}

fn list(store: &mut Store<ConfigMap>, version: u64, items: Vec<ConfigMap>) -> (Freshness, Vec<String>) {
    let mut deltas = Vec::new();
    let items = items.into_iter().map(Decoded::Whole);
    let freshness = store.listed(&Version::new(version.to_string()), items, &mut deltas);
    (freshness, texts(deltas))
}

fn apply(store: &mut Store<ConfigMap>, map: ConfigMap) -> (Freshness, Vec<String>) {
    let mut deltas = Vec::new();
    let freshness = store.applied(Decoded::Whole(map), &mut deltas);
    (freshness, texts(deltas))
}

fn end(store: &mut Store<ConfigMap>, map: ConfigMap) -> Vec<String> {
    let mut deltas = Vec::new();
    store.ended(Decoded::Whole(map), &mut deltas);
    texts(deltas)
}

fn write(store: &mut Store<ConfigMap>, map: ConfigMap) -> Vec<String> {
    let mut deltas = Vec::new();
    store.wrote(map, &mut deltas);
    texts(deltas)
}

fn delete(store: &mut Store<ConfigMap>, name: &str, uid: &str) -> Vec<String> {
    let mut deltas = Vec::new();
    store.deleted(&key(name), uid, &mut deltas);
    texts(deltas)
}

/// Returns the cached version of an object.
fn held(store: &Store<ConfigMap>, name: &str) -> Option<u64> {
    match store.look_up(&key(name)) {
        Lookup::Present(map) => number(map.metadata.resource_version.as_deref().unwrap()),
        Lookup::Absent | Lookup::Undecodable(_) => None,
    }
}

/// Shows CAC-4, MC-W7, MC-W67.
#[test]
fn own_write_is_visible_and_its_event_is_ignored() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    assert_eq!(write(&mut store, map("a", "ua", 11)), ["a changed 5->11"]);
    assert_eq!(write(&mut store, map("b", "ub", 12)), ["b added 12"]);
    assert_eq!(apply(&mut store, map("a", "ua", 11)), (Freshness::Taken, vec![]));
    assert_eq!(apply(&mut store, map("b", "ub", 12)), (Freshness::Taken, vec![]));
    assert!(store.floors.is_empty(), "a reached floor is removed");
}

/// Shows CAC-4.
#[test]
fn an_event_older_than_our_write_does_not_undo_it() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    write(&mut store, map("a", "ua", 13));
    assert_eq!(apply(&mut store, map("a", "ua", 12)), (Freshness::Taken, vec![]));
    assert_eq!(held(&store, "a"), Some(13));
    assert_eq!(apply(&mut store, map("a", "ua", 14)).1, ["a changed 13->14"]);
}

#[test]
fn an_answer_older_than_what_the_watch_has_shown_is_ignored() {
    let mut store = store();
    list(&mut store, 10, vec![]);
    apply(&mut store, map("a", "ua", 12));
    assert!(write(&mut store, map("a", "ua", 11)).is_empty());
    assert_eq!(held(&store, "a"), Some(12));
}

/// Shows CAC-4.
#[test]
fn a_list_older_than_our_write_does_not_undo_it() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    write(&mut store, map("a", "ua", 20));
    write(&mut store, map("new", "un", 21));
    assert_eq!(list(&mut store, 15, vec![map("a", "ua", 5)]), (Freshness::Taken, vec![]));
    assert_eq!((held(&store, "a"), held(&store, "new")), (Some(20), Some(21)));
    assert_eq!(list(&mut store, 30, vec![map("a", "ua", 22)]).1, ["new Vanished 21", "a changed 20->22"]);
}

/// Shows CAC-3, MC-W56.
#[test]
fn what_a_relist_no_longer_finds_has_vanished() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5), map("b", "ub", 6)]);
    assert_eq!(list(&mut store, 20, vec![map("b", "ub", 6)]), (Freshness::Taken, vec!["a Vanished 5".to_owned()]));
    assert_eq!(store.len(), 1);
}

#[test]
fn a_watched_deletion_tells_the_state_it_was_sent_with() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    assert_eq!(end(&mut store, map("a", "ua", 12)), ["a Deleted 12"]);
    assert_eq!(end(&mut store, map("a", "ua", 12)), [""; 0]);
}

/// Shows CAC-4.
#[test]
fn our_delete_is_not_undone_by_an_older_event_or_list() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    assert_eq!(delete(&mut store, "a", "ua"), ["a Deleted 5"]);
    assert_eq!(apply(&mut store, map("a", "ua", 11)), (Freshness::Taken, vec![]));
    assert_eq!(list(&mut store, 12, vec![map("a", "ua", 11)]), (Freshness::Taken, vec![]));
    assert_eq!(apply(&mut store, map("a", "ua", 13)), (Freshness::Taken, vec![]));
    assert_eq!(end(&mut store, map("a", "ua", 14)), [""; 0]);
    assert_eq!(apply(&mut store, map("a", "another", 15)).1, ["a added 15"]);
    assert!(store.floors.is_empty());
}

#[test]
fn list_before_the_creation_keeps_the_floor_of_a_delete() {
    let mut store = store();
    list(&mut store, 10, vec![]);
    write(&mut store, map("a", "ua", 20));
    delete(&mut store, "a", "ua");
    list(&mut store, 15, vec![]);
    assert_eq!(apply(&mut store, map("a", "ua", 20)), (Freshness::Taken, vec![]));
    list(&mut store, 25, vec![]);
    assert!(store.floors.is_empty(), "a later list without the object removes the floor");
}

#[test]
fn deleting_what_is_another_one_by_now_does_nothing() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "new", 5)]);
    assert_eq!(delete(&mut store, "a", "old"), [""; 0]);
    assert_eq!(held(&store, "a"), Some(5));
}

#[test]
fn late_response_does_not_restore_a_deleted_object() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    end(&mut store, map("a", "ua", 12));
    assert_eq!(write(&mut store, map("a", "ua", 11)), [""; 0]);
    assert_eq!(held(&store, "a"), None);
}

#[test]
fn late_delete_event_keeps_a_new_object_with_the_same_name() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "old", 5)]);
    write(&mut store, map("a", "new", 13));
    assert_eq!(end(&mut store, map("a", "old", 12)), [""; 0]);
    assert_eq!(held(&store, "a"), Some(13));
}

#[test]
fn late_delete_event_keeps_the_floor_of_the_successor() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "old", 5)]);
    write(&mut store, map("a", "new", 16));
    delete(&mut store, "a", "new");
    end(&mut store, map("a", "old", 13));
    assert_eq!(apply(&mut store, map("a", "new", 14)), (Freshness::Taken, vec![]));
}

#[test]
fn list_with_a_predecessor_does_not_restore_it() {
    let mut store = store();
    list(&mut store, 10, vec![]);
    write(&mut store, map("a", "new", 16));
    delete(&mut store, "a", "new");
    assert_eq!(list(&mut store, 12, vec![map("a", "old", 11)]), (Freshness::Taken, vec![]));
    assert_eq!(apply(&mut store, map("a", "new", 16)), (Freshness::Taken, vec![]));
}

#[test]
fn removal_of_the_last_finalizer_is_a_deletion() {
    let mut store = store();
    let mut leaving = map("a", "ua", 11);
    leaving.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    leaving.metadata.deletion_grace_period_seconds = Some(0);
    leaving.metadata.finalizers = Some(vec!["ours".to_owned()]);
    list(&mut store, 11, vec![leaving.clone()]);
    leaving.metadata.resource_version = Some("12".to_owned());
    assert_eq!(write(&mut store, leaving.clone()), ["a changed 11->12"]);
    leaving.metadata.finalizers = None;
    leaving.metadata.resource_version = Some("13".to_owned());
    assert_eq!(write(&mut store, leaving), ["a Deleted 12"]);
}

#[test]
fn in_doubt_our_new_writes_count_and_old_versions_do_not() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90)]);
    list(&mut store, 40, vec![]);
    assert_eq!(write(&mut store, map("a", "ua", 50)), ["a changed 90->50"]);
    list(&mut store, 45, vec![map("a", "ua", 30)]);
    assert_eq!(held(&store, "a"), Some(50), "the list is older than this write");
}

#[test]
fn after_a_regression_the_same_version_may_be_another_state() {
    let mut store = store();
    list(&mut store, 100, vec![coloured("a", "ua", 60, "red")]);
    list(&mut store, 70, vec![]);
    list(&mut store, 70, vec![coloured("a", "ua", 60, "blue")]);
    assert_eq!(store.find(&BY_COLOUR, "blue").len(), 1);
}

#[test]
fn a_watch_that_goes_back_is_not_believed() {
    let mut store = store();
    list(&mut store, 100, vec![map("a", "ua", 90)]);
    assert_eq!(apply(&mut store, map("a", "ua", 95)), (Freshness::Regressed, vec![]));
    assert_eq!(held(&store, "a"), Some(90));
}

#[test]
fn a_bookmark_ends_the_floors_it_has_passed() {
    let mut store = store();
    list(&mut store, 10, vec![]);
    write(&mut store, map("a", "ua", 11));
    assert_eq!(store.passed(&Version::new("20")), Freshness::Taken);
    assert!(store.floors.is_empty());
    assert_eq!(store.passed(&Version::new("19")), Freshness::Regressed);
}

/// Shows CAC-5.
#[test]
fn without_numbers_the_watch_wins() {
    let mut store = store();
    let odd = |version: &str| {
        let mut map = map("a", "ua", 0);
        map.metadata.resource_version = Some(version.to_owned());
        map
    };
    store.listed(&Version::new("x"), [Decoded::Whole(odd("p"))], &mut Vec::new());
    assert_eq!(write(&mut store, odd("z")), [""; 0]);
    assert_eq!(apply(&mut store, odd("b")).1, ["a changed p->b"]);
    assert_eq!(delete(&mut store, "a", "ua"), ["a Deleted b"]);
    assert_eq!(apply(&mut store, odd("c")).1, ["a added c"]);
}

/// Shows CAC-8.
#[test]
fn undecodable_object_is_present_until_fixed_or_deleted() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    let mut deltas = Vec::new();
    store.applied(broken("a", "ua", 11), &mut deltas);
    store.applied(broken("b", "ub", 12), &mut deltas);
    assert_eq!(texts(deltas), ["a undecodable, before: true", "b undecodable, before: false"]);
    assert_eq!((store.len(), store.undecodable_count(), store.whole().count()), (2, 2, 0));
    assert!(matches!(store.look_up(&key("a")), Lookup::Undecodable(_)));
    assert!(store.find(&BY_COLOUR, "grey").is_empty(), "undecodable objects are not in indexes");
    assert_eq!(apply(&mut store, map("a", "ua", 13)).1, ["a fixed 13"]);
    assert_eq!((store.undecodable_count(), store.find(&BY_COLOUR, "grey").len()), (1, 1));
    assert_eq!(list(&mut store, 20, vec![map("a", "ua", 13)]).1, ["b undecodable Vanished"]);
    assert_eq!(store.undecodable_count(), 0);
}

/// Shows CAC-8.
#[test]
fn an_undecodable_object_in_a_list_has_not_vanished() {
    let mut store = store();
    list(&mut store, 10, vec![map("a", "ua", 5)]);
    let mut deltas = Vec::new();
    store.listed(&Version::new("20"), [broken("a", "ua", 15)], &mut deltas);
    assert_eq!(texts(deltas), ["a undecodable, before: true"]);
}

/// Shows CAC-12.
#[test]
fn heartbeat_changes_the_cache_without_a_delta() {
    let mut store = Store::new(vec![], Some(only_beats as UpdatePredicate<ConfigMap>), None);
    let beat = |version: u64| {
        let mut map = map("a", "ua", version);
        map.data.get_or_insert_default().insert("beat".to_owned(), version.to_string());
        map
    };
    list(&mut store, 10, vec![beat(5)]);
    assert_eq!(apply(&mut store, beat(11)), (Freshness::Taken, vec![]));
    assert_eq!(held(&store, "a"), Some(11));
    assert_eq!(apply(&mut store, coloured("a", "ua", 12, "red")).1, ["a changed 11->12"]);
}

/// Shows CAC-15, MC-W41.
#[test]
fn an_index_answers_in_the_order_of_keys_and_follows_changes() {
    let mut store = store();
    let red = |name: &str, version| coloured(name, name, version, "red");
    list(&mut store, 10, vec![red("c", 1), red("a", 2), coloured("b", "b", 3, "redder")]);
    let names = |store: &Store<ConfigMap>, index: &Index<ConfigMap>, colour: &str| -> Vec<String> {
        store.find(index, colour).iter().filter_map(|map| map.metadata.name.clone()).collect()
    };
    assert_eq!(names(&store, &BY_COLOUR, "red"), ["a", "c"]);
    assert_eq!(names(&store, &UNDECLARED, "red"), ["a", "c"], "an undeclared index is slow, not empty");
    apply(&mut store, coloured("a", "a", 11, "redder"));
    end(&mut store, red("c", 12));
    assert_eq!(names(&store, &BY_COLOUR, "red"), [""; 0]);
    assert_eq!(names(&store, &BY_COLOUR, "redder"), ["a", "b"]);
}

#[test]
fn namespaces_are_held_once() {
    let mut store = store();
    let spaced = |name: &str, version| {
        let mut map = map(name, name, version);
        map.metadata.namespace = Some("ns".to_owned());
        map
    };
    list(&mut store, 10, vec![spaced("a", 1), spaced("b", 2)]);
    let namespaces: Vec<_> = store.held.keys().map(|key| key.namespace.clone()).collect();
    assert!(Arc::ptr_eq(&namespaces[0], &namespaces[1]));
}

/// A server with a history, and a cache that receives it late from several sources.
#[derive(Default)]
struct ServerHistory {
    version: u64,
    now: BTreeMap<String, ConfigMap>,
    /// All events: the object, and whether it was deleted.
    history: Vec<(u64, ConfigMap, bool)>,
}

#[derive(Clone, Debug)]
enum Move {
    /// Another client creates or updates it.
    Write {
        name: u8,
        who: Who,
    },
    Delete {
        name: u8,
        who: Who,
    },
    /// The oldest outstanding response arrives.
    Answer,
    /// The watch delivers this many events.
    Deliver(u8),
    /// A list that is this many versions old, but not older than the cache.
    List(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Others,
    This,
    /// This client writes it; the watch event may precede the response.
    ThisSlowly,
}

impl ServerHistory {
    fn write(&mut self, name: &str) -> ConfigMap {
        self.version += 1;
        let known = self.now.get(name).and_then(|map| map.metadata.uid.clone());
        let uid = known.unwrap_or_else(|| format!("born-at-{}", self.version));
        let colour = if self.version.is_multiple_of(2) { "red" } else { "blue" };
        let map = coloured(name, &uid, self.version, colour);
        self.now.insert(name.to_owned(), map.clone());
        self.history.push((self.version, map.clone(), false));
        map
    }

    fn delete(&mut self, name: &str) -> Option<ConfigMap> {
        let mut map = self.now.remove(name)?;
        self.version += 1;
        map.metadata.resource_version = Some(self.version.to_string());
        self.history.push((self.version, map.clone(), true));
        Some(map)
    }

    fn at(&self, version: u64) -> Vec<ConfigMap> {
        let mut then = BTreeMap::new();
        for (_, map, ended) in self.history.iter().filter(|(at, ..)| *at <= version) {
            let name = map.metadata.name.clone();
            if *ended {
                then.remove(&name)
            } else {
                then.insert(name, map.clone())
            };
        }
        then.into_values().collect()
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let who = || prop_oneof![2 => Just(Who::Others), 1 => Just(Who::This), 1 => Just(Who::ThisSlowly)];
    let one = prop_oneof![
        4 => (0u8..3, who()).prop_map(|(name, who)| Move::Write { name, who }),
        2 => (0u8..3, who()).prop_map(|(name, who)| Move::Delete { name, who }),
        2 => Just(Move::Answer),
        3 => (1u8..4).prop_map(Move::Deliver),
        1 => (0u8..6).prop_map(Move::List),
    ];
    prop::collection::vec(one, 1..60)
}

proptest! {
    /// Shows CAC-4.
    #[test]
    fn own_writes_are_kept_in_any_order_of_events(moves in moves()) {
        let (mut server, mut store) = (ServerHistory::default(), store());
        let mut position = 0;
        let mut own: BTreeMap<String, u64> = BTreeMap::new();
        list(&mut store, 0, vec![]);
        let deliver = |server: &ServerHistory, store: &mut Store<ConfigMap>, position: &mut u64, events: usize| {
            let next = server.history.iter().filter(|(at, ..)| at > position).take(events).cloned().collect::<Vec<_>>();
            for (at, map, ended) in next {
                *position = at;
                if ended { end(store, map); } else { assert_eq!(apply(store, map).0, Freshness::Taken); }
            }
        };
        let mut answers: VecDeque<(String, ConfigMap, bool)> = VecDeque::new();
        for step in moves {
            let mut arrived = Vec::new();
            match step {
                Move::Write { name, who } => {
                    let name = format!("o{name}");
                    let answer = (name.clone(), server.write(&name), false);
                    match who {
                        Who::Others => {}
                        Who::This => arrived.push(answer),
                        Who::ThisSlowly => answers.push_back(answer),
                    }
                }
                Move::Delete { name, who } => {
                    let name = format!("o{name}");
                    let answer = server.delete(&name).map(|answer| (name, answer, true));
                    match who {
                        Who::Others => {}
                        Who::This => arrived.extend(answer),
                        Who::ThisSlowly => answers.extend(answer),
                    }
                }
                Move::Answer => arrived.extend(answers.pop_front()),
                Move::Deliver(events) => deliver(&server, &mut store, &mut position, usize::from(events)),
                Move::List(age) => {
                    position = position.max(server.version.saturating_sub(u64::from(age)));
                    let items = server.at(position);
                    prop_assert_eq!(list(&mut store, position, items).0, Freshness::Taken);
                }
            }
            for (name, answer, ended) in arrived {
                if ended {
                    delete(&mut store, &name, answer.metadata.uid.as_deref().unwrap());
                } else {
                    let at = number(answer.metadata.resource_version.as_deref().unwrap()).unwrap();
                    let newest = own.entry(name).or_default();
                    *newest = at.max(*newest);
                    write(&mut store, answer);
                }
            }
            for (name, at) in &own {
                let deleted_since = server.history.iter().any(|(when, map, ended)| {
                    *ended && when > at && map.metadata.name.as_ref() == Some(name)
                });
                match held(&store, name) {
                    Some(version) => prop_assert!(version >= *at, "{} is {} after the own write {}", name, version, at),
                    None => prop_assert!(deleted_since, "{} is missing after the own write {}", name, at),
                }
            }
        }
        deliver(&server, &mut store, &mut position, usize::MAX);
        let cached: Vec<ConfigMap> = store.whole().map(|map| ConfigMap::clone(map)).collect();
        let real: Vec<ConfigMap> = server.now.values().cloned().collect();
        prop_assert_eq!(cached, real);
        prop_assert!(store.floors.is_empty(), "floors remain");
        for colour in ["red", "blue"] {
            prop_assert_eq!(store.find(&BY_COLOUR, colour), store.find(&UNDECLARED, colour));
        }
    }
}

/// A store with a filter for these colours.
fn filtered(colours: &Arc<parking_lot::Mutex<Vec<&'static str>>>) -> Store<ConfigMap> {
    let colours = colours.clone();
    let colour = |map: &ConfigMap| map.data.clone().unwrap_or_default().remove("colour").unwrap_or_default();
    let keep: Keep<ConfigMap> = Arc::new(move |map| colours.lock().contains(&colour(map).as_str()));
    Store::new(vec![BY_COLOUR], None, Some(keep))
}

fn names(store: &Store<ConfigMap>) -> Vec<String> {
    store.whole().map(|map| map.metadata.name.clone().unwrap_or_default()).collect()
}

#[test]
fn what_the_filter_does_not_keep_is_never_stored() {
    let colours = Arc::new(parking_lot::Mutex::new(vec!["red"]));
    let (mut store, mut deltas) = (filtered(&colours), Deltas::new());
    let listed = [coloured("a", "ua", 1, "red"), coloured("b", "ub", 2, "blue")].map(Decoded::Whole);
    store.listed(&Version::new("5"), listed, &mut deltas);
    store.applied(Decoded::Whole(coloured("c", "uc", 6, "blue")), &mut deltas);
    store.applied(broken("d", "ud", 7), &mut deltas);
    assert_eq!((names(&store), store.len()), (vec!["a".to_owned()], 1));
    assert_eq!(texts(deltas), ["a added 1"]);
}

#[test]
fn admitted_objects_exclude_those_deleted_in_the_meantime() {
    let colours = Arc::new(parking_lot::Mutex::new(vec!["red"]));
    let (mut store, mut deltas) = (filtered(&colours), Deltas::new());
    store.listed(&Version::new("5"), [], &mut deltas);
    colours.lock().push("blue");
    store.begin_admission();
    // The list has version 6; watch events arrive before its response.
    store.ended(Decoded::Whole(coloured("gone", "u1", 7, "blue")), &mut deltas);
    store.applied(Decoded::Whole(coloured("moved", "u2", 8, "blue")), &mut deltas);
    let read = [("gone", "u1", 2), ("moved", "u2", 3), ("still", "u3", 4)];
    store.admit(read.map(|(name, uid, at)| Decoded::Whole(coloured(name, uid, at, "blue"))), &mut deltas);
    store.end_admission();
    assert_eq!(texts(deltas), ["moved added 8", "still added 4"]);

    colours.lock().pop();
    store.shed();
    assert_eq!(store.len(), 0);
    assert!(store.find(&BY_COLOUR, "blue").is_empty());
}

#[test]
fn what_was_admitted_ahead_of_the_watch_is_not_undone_by_it() {
    let colours = Arc::new(parking_lot::Mutex::new(vec!["blue"]));
    let (mut store, mut deltas) = (filtered(&colours), Deltas::new());
    store.listed(&Version::new("5"), [], &mut deltas);
    store.begin_admission();
    store.admit([Decoded::Whole(coloured("a", "u", 9, "blue"))], &mut deltas);
    store.end_admission();
    store.applied(Decoded::Whole(coloured("a", "u", 7, "blue")), &mut deltas);
    store.applied(Decoded::Whole(coloured("a", "u", 9, "blue")), &mut deltas);
    assert_eq!(texts(deltas), ["a added 9"]);
    store.ended(Decoded::Whole(coloured("a", "u", 10, "blue")), &mut Deltas::new());
    assert_eq!(store.len(), 0);
}
