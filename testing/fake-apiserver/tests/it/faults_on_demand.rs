//! Faults, as a client meets them.

use std::time::Duration;

use fake_apiserver::faults::{After, Staleness, Verb};
use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

use crate::cluster::{client, config_map, config_maps, create_many, refusal, server};

/// Shows SRV-13.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_was_given_all_the_same() {
    let server = server();
    let api = config_maps(&server);
    server.faults().on(Verb::Create).of("configmaps").named("a").once().lose_answer();
    let error = api.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
    assert!(api.get_opt("a").await.unwrap().is_some());
    assert_eq!(refusal(api.create(&PostParams::default(), &config_map("a")).await).0, 409);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_first_leaves_nothing_behind() {
    let server = server();
    let api = config_maps(&server);
    server.faults().on(Verb::Create).once().disconnect();
    api.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert!(api.get_opt("a").await.unwrap().is_none());
    let broken: u64 = server.request_counts().iter().filter(|(tally, _)| tally.code == 0).map(|(_, count)| count).sum();
    assert_eq!(broken, 1);
}

/// Shows SRV-13.
#[tokio::test(start_paused = true)]
async fn a_throttled_client_is_told_for_how_long_if_the_rule_says_so() {
    let server = server();
    let api = config_maps(&server);
    server.faults().on(Verb::Get).once().throttle(Some(7));
    let request =
        http::Request::get("/api/v1/namespaces/default/configmaps/a").body(kube::client::Body::empty()).unwrap();
    let response = client(&server).send(request).await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    server.faults().on(Verb::Get).once().throttle(None);
    let (code, reason, _) = refusal(api.get("a").await);
    assert_eq!((code, reason.as_str()), (429, "TooManyRequests"));
}

/// Shows SRV-13.
#[tokio::test(start_paused = true)]
async fn a_slow_server_takes_its_time_and_no_more() {
    let server = server();
    server.faults().on(Verb::List).once().delay(Duration::from_secs(5));
    let started = tokio::time::Instant::now();
    config_maps(&server).list(&ListParams::default()).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

/// Shows SRV-13.
#[tokio::test(start_paused = true)]
async fn a_stale_list_shows_the_past_and_says_from_when_it_is() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let then = server.revision();
    tokio::time::sleep(Duration::from_secs(10)).await;
    create_many(&api, ["b".to_owned()]).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    for staleness in [Staleness::Revisions(2), Staleness::Age(Duration::from_secs(5))] {
        server.faults().on(Verb::List).once().be_stale(staleness);
        let list = api.list(&ListParams::default()).await.unwrap();
        assert_eq!(list.items.len(), 1);
        assert_eq!(list.items[0].metadata.name.as_deref(), Some("a"));
        assert_eq!(list.metadata.resource_version, Some(then.to_string()));
    }
    server.faults().on(Verb::Get).once().be_stale(Staleness::Revisions(2));
    assert!(api.get_opt("b").await.unwrap().is_none());
}

/// Opens a watch from zero over `a`, `b` and `c` and says what is seen of them.
async fn seen_of_three(fault: impl FnOnce(&fake_apiserver::Server)) -> Vec<String> {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a", "b", "c"].map(str::to_owned)).await;
    fault(&server);
    let events = api.watch(&WatchParams { bookmarks: true, ..WatchParams::default() }, "0").await.unwrap();
    let short = |event| match event {
        Ok(WatchEvent::Added(object)) => k8s_openapi::api::core::v1::ConfigMap::clone(&object).metadata.name.unwrap(),
        Ok(WatchEvent::Error(status)) => status.code.to_string(),
        Ok(WatchEvent::Bookmark(_)) => "bookmark".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(_) => "broken".to_owned(),
    };
    let all = events.map(short).take_until(tokio::time::sleep(Duration::from_secs(70)));
    all.collect().await
}

/// Shows SRV-13.
#[tokio::test(start_paused = true)]
async fn a_watch_goes_wrong_when_it_is_told_to() {
    let dropped = seen_of_three(|s| _ = s.faults().on(Verb::Watch).drop_watch(After::Events(2))).await;
    assert_eq!(dropped, ["a", "b", "broken"]);
    let expired = seen_of_three(|s| _ = s.faults().on(Verb::Watch).expire_watch(After::Events(1))).await;
    assert_eq!(expired, ["a", "410"]);
    let late = seen_of_three(|s| _ = s.faults().on(Verb::Watch).drop_watch(After::Time(Duration::from_secs(30)))).await;
    assert_eq!(late, ["a", "b", "c", "broken"]);
    let stalled = seen_of_three(|s| _ = s.faults().on(Verb::Watch).stall_watch(After::Events(2))).await;
    assert_eq!(stalled, ["a", "b"]);
    let healthy = seen_of_three(|_| {}).await;
    assert_eq!(healthy, ["a", "b", "c", "bookmark"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_an_answer_and_not_an_event() {
    let server = server();
    server.faults().on(Verb::Watch).once().expire();
    let result = config_maps(&server).watch(&WatchParams::default(), "3").await;
    let (code, reason, _) = refusal(result.map(|_| ()));
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

/// Shows SRV-14.
#[tokio::test(start_paused = true)]
async fn the_same_storm_leaves_the_same_wreck() {
    async fn weathered() -> String {
        let server = server();
        server.faults().brew(0.5);
        let api = config_maps(&server);
        for turn in 0..40 {
            let name = format!("m{}", turn % 5);
            let _created = api.create(&PostParams::default(), &config_map(&name)).await;
            let _listed = api.list(&ListParams::default()).await;
            if turn % 3 == 0 {
                let _deleted = api.delete(&name, &DeleteParams::default()).await;
            }
        }
        assert!(!server.faults().fired().is_empty());
        format!("{:?} {:?}", server.objects("configmaps"), server.requests())
    }
    assert_eq!(weathered().await, weathered().await);
}
