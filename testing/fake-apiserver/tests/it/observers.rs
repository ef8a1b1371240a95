//! What an observer is told.

use std::sync::{Arc, Mutex};

use fake_apiserver::Observation;
use futures::StreamExt;
use kube::api::{DeleteParams, PostParams, WatchParams};

use crate::cluster::{config_map, config_maps, server};

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_writes_answers_and_what_a_watch_has_shown_in_their_order() {
    let server = server();
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = told.clone();
    server.observe(Arc::new(move |observation: &Observation<'_>| {
        notes.lock().unwrap().push(match observation {
            Observation::Written { kind, change, by } => format!("{} {kind} {}", by.verb, change.key.name),
            Observation::Shown { kind, revision, .. } => format!("shown {kind} {revision}"),
            Observation::Answered(entry) => format!("{} {}", entry.tally.verb, entry.tally.code),
        });
    }));
    let maps = config_maps(&server);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let before = server.revision() - 1;
    let mut events = maps.watch(&WatchParams::default(), &before.to_string()).await.unwrap().boxed();
    events.next().await.unwrap().unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let shown = format!("shown configmaps {}", before + 1);
    let told = told.lock().unwrap().clone();
    assert_eq!(told, ["create configmaps a", "create 201", "watch 200", &*shown, "delete configmaps a", "delete 200"]);
}
