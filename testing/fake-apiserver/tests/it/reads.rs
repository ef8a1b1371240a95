//! Reading, and lists that are read in pages.

use kube::api::{DeleteParams, ListParams, PostParams, VersionMatch};

use crate::cluster::{client, config_map, config_maps, create_many, refusal, server, server_with};

fn names<K: kube::ResourceExt>(items: &[K]) -> Vec<String> {
    items.iter().map(kube::ResourceExt::name_any).collect()
}

/// Shows SRV-3.
#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_show_the_same_moment() {
    let api = config_maps(&server());
    create_many(&api, (0..10).map(|i| format!("m{i}"))).await;
    let first = api.list(&ListParams::default().limit(4)).await.unwrap();
    assert_eq!(names(&first.items), ["m0", "m1", "m2", "m3"]);
    assert_eq!(first.metadata.remaining_item_count, Some(6));

    api.delete("m5", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("m55")).await.unwrap();

    let token = first.metadata.continue_.clone().unwrap();
    let second = api.list(&ListParams::default().limit(4).continue_token(&token)).await.unwrap();
    assert_eq!(names(&second.items), ["m4", "m5", "m6", "m7"]);
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.unwrap();
    let third = api.list(&ListParams::default().limit(4).continue_token(&token)).await.unwrap();
    assert_eq!(names(&third.items), ["m8", "m9"]);
    assert_eq!(third.metadata.continue_, None);
}

/// Shows SRV-3.
#[tokio::test(start_paused = true)]
async fn a_page_whose_moment_is_compacted_is_gone_but_the_rest_can_be_had() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, (0..4).map(|i| format!("m{i}"))).await;
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    api.delete("m2", &DeleteParams::default()).await.unwrap();
    server.compact(server.revision());
    let token = first.metadata.continue_.unwrap();
    let result = api.list(&ListParams::default().limit(2).continue_token(&token)).await;
    let kube::Error::Api(status) = result.unwrap_err() else { panic!("not a refusal") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.starts_with("The provided continue parameter is too old"));
    let fresh = status.metadata.unwrap().continue_.unwrap();
    let rest = api.list(&ListParams::default().limit(2).continue_token(&fresh)).await.unwrap();
    assert_eq!(names(&rest.items), ["m3"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_at_an_exact_version_shows_the_past() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let then = server.revision().to_string();
    create_many(&api, ["b".to_owned()]).await;
    let exact = ListParams::default().matching(VersionMatch::Exact).at(&then);
    assert_eq!(names(&api.list(&exact).await.unwrap().items), ["a"]);
    let newer = ListParams::default().matching(VersionMatch::NotOlderThan).at(&then);
    assert_eq!(names(&api.list(&newer).await.unwrap().items), ["a", "b"]);
    let future = ListParams::default().matching(VersionMatch::NotOlderThan).at("9999");
    assert_eq!(refusal(api.list(&future).await).0, 504);
}

#[tokio::test(start_paused = true)]
async fn history_is_bounded() {
    let server = server_with(|options| options.history.writes = 3);
    let api = config_maps(&server);
    let then = server.revision().to_string();
    create_many(&api, (0..5).map(|i| format!("m{i}"))).await;
    let exact = ListParams::default().matching(VersionMatch::Exact).at(&then);
    let (code, reason, _) = refusal(api.list(&exact).await);
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_and_unknown_fields_are_refused() {
    let server = server();
    let api = config_maps(&server);
    let mut labelled = config_map("a");
    labelled.metadata.labels = Some([("role".to_owned(), "x".to_owned())].into());
    api.create(&PostParams::default(), &labelled).await.unwrap();
    create_many(&api, ["b".to_owned()]).await;
    assert_eq!(names(&api.list(&ListParams::default().labels("role in (x,y)")).await.unwrap().items), ["a"]);
    assert_eq!(names(&api.list(&ListParams::default().fields("metadata.name!=a")).await.unwrap().items).len(), 1);
    assert_eq!(refusal(api.list(&ListParams::default().fields("spec.nodeName=a")).await).0, 400);
}

#[tokio::test(start_paused = true)]
async fn metadata_is_served_alone_when_nothing_else_is_asked_for() {
    let server = server();
    let api = config_maps(&server);
    create_many(&api, ["a".to_owned()]).await;
    let one = api.get_metadata("a").await.unwrap();
    assert_eq!(one.metadata.name.as_deref(), Some("a"));
    assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    let all = api.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
    let raw = http::Request::get("/api/v1/namespaces/default/configmaps/a")
        .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .body(Vec::new())
        .unwrap();
    assert!(!client(&server).request_text(raw).await.unwrap().contains("\"data\""));
}
