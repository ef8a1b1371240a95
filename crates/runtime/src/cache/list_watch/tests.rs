use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use parking_lot::Mutex;

use super::*;

/// An API server with one response for all requests, which it records.
fn server(code: u16, body: &'static str, settings: &Settings) -> (ApiServer, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        log.lock().push(format!("{} [{accept}]", request.uri()));
        let response =
            http::Response::builder().status(code).body(Full::new(bytes::Bytes::from_static(body.as_bytes())));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    });
    (ApiServer::new::<ConfigMap>(Client::new(service, "default"), settings), asked)
}

const FIRST: ListAsk = ListAsk { limit: Some(500), next: None, cached: false };

fn after(version: &str) -> WatchAsk {
    WatchAsk { from: Start::After(Version::new(version)), lasting: Duration::from_secs(77) }
}

async fn list(server: &ApiServer, ask: ListAsk) -> Result<Page<ConfigMap>, ListWatchError> {
    server.list(ask).await
}

async fn events(
    server: &ApiServer,
    ask: WatchAsk,
) -> Result<Vec<Result<Event<ConfigMap>, ListWatchError>>, ListWatchError> {
    Ok(server.watch(ask).await?.collect().await)
}

#[tokio::test]
async fn a_page_keeps_what_it_cannot_decode() {
    let body = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"9","continue":"t"},"items":[
        {"metadata":{"name":"a"}},{"metadata":{"name":"b"},"data":7}]}"#;
    let (server, _) = server(200, body, &Settings::default());
    let page = list(&server, FIRST).await.unwrap();
    assert_eq!((page.version.as_str(), page.next.as_deref()), ("9", Some("t")));
    assert!(matches!(&page.items[..], [Decoded::Whole(_), Decoded::Undecodable(_)]));
}

/// Shows CAC-23.
#[tokio::test]
async fn list_is_rejected_when_an_item_has_no_name() {
    for nameless in [r#"{"metadata":{}}"#, r#"{"data":7}"#, r#"{"metadata":{"name":7}}"#, r#"{"metadata":{"name":""}}"#]
    {
        let body =
            format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{{"metadata":{{"name":"a"}}}},{nameless}]}}"#);
        let (server, _) = server(200, body.leak(), &Settings::default());
        let error = list(&server, FIRST).await.unwrap_err();
        let expected = "failed to decode the response of the API server: 1 of 2 items of a list have no name";
        assert_eq!(error.to_string(), expected, "{nameless}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_not_an_empty_list() {
    for body in ["{}", r#"{"kind":"Status","metadata":{},"status":"Success"}"#, "", "<html>"] {
        let (server, _) = server(200, body, &Settings::default());
        assert!(matches!(list(&server, FIRST).await, Err(ListWatchError::Garbled(_))), "{body}");
    }
}

#[tokio::test]
async fn an_empty_list_may_have_no_items_at_all() {
    let (server, _) = server(200, r#"{"metadata":{"resourceVersion":"9"},"items":null}"#, &Settings::default());
    assert!(list(&server, FIRST).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn questions_carry_selectors_paging_and_the_form() {
    let settings = Settings {
        namespace: Some("ns".to_owned()),
        labels: Some("a=b".to_owned()),
        fields: Some("spec.nodeName=n".to_owned()),
        form: Form::Metadata,
        ..Settings::default()
    };
    let (server, asked) = server(200, r#"{"metadata":{"resourceVersion":"9"}}"#, &settings);
    let selectors = "fieldSelector=spec.nodeName%3Dn&labelSelector=a%3Db";
    list(&server, ListAsk { next: Some("t".to_owned()), ..FIRST }).await.unwrap();
    list(&server, ListAsk { limit: None, next: None, cached: true }).await.unwrap();
    events(&server, after("5")).await.unwrap();
    events(&server, WatchAsk { from: Start::Everything, lasting: Duration::from_secs(77) }).await.unwrap();
    let path = "/api/v1/namespaces/ns/configmaps?";
    let many = "[application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1]";
    let one = "[application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1]";
    let watch = format!("{path}&watch=true&timeoutSeconds=77&{selectors}&allowWatchBookmarks=true");
    assert_eq!(
        *asked.lock(),
        [
            format!("{path}&{selectors}&limit=500&continue=t {many}"),
            format!("{path}&{selectors}&resourceVersion=0 {many}"),
            format!("{watch}&resourceVersion=5 {one}"),
            format!("{watch}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion= {one}"),
        ]
    );
}

#[tokio::test]
async fn a_watch_tells_events_bookmarks_and_its_error() {
    let body = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
        "\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"},"data":7}}"#,
        "\n",
        r#"{"type":"DELETED","object":{"metadata":{"name":"a"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9","creationTimestamp":null}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
        "\n",
    );
    let (server, _) = server(200, body, &Settings::default());
    let events = events(&server, after("5")).await.unwrap();
    assert!(matches!(
        &events[..],
        [
            Ok(Event::Applied(Decoded::Whole(_))),
            Ok(Event::Applied(Decoded::Undecodable(_))),
            Ok(Event::Ended(Decoded::Whole(_))),
            Ok(Event::Bookmark { complete: true, .. }),
            Ok(Event::Bookmark { complete: false, .. }),
            Err(ListWatchError::Gone),
        ]
    ));
}

#[tokio::test]
async fn truncated_line_ends_the_watch_but_an_invalid_one_does_not() {
    let (broken, _) = server(200, r#"{"type":"ADDED","object":{"metadata":{"na"#, &Settings::default());
    assert!(events(&broken, after("5")).await.unwrap().is_empty());
    let (nonsense, _) = server(200, "{\"type\":\"WHAT\",\"object\":{}}\n{\"type\":3}\n", &Settings::default());
    let said = events(&nonsense, after("5")).await.unwrap();
    assert!(matches!(&said[..], [Err(ListWatchError::Garbled(_)), Err(ListWatchError::Garbled(_))]));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let gone = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}"#;
    let (expired, _) = server(410, gone, &Settings::default());
    assert!(matches!(list(&expired, FIRST).await, Err(ListWatchError::Gone)));

    let ahead = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Too large resource version: 9, current: 4",
        "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]}}"#;
    let (restored, _) = server(504, ahead, &Settings::default());
    assert!(
        matches!(events(&restored, after("9")).await, Err(ListWatchError::Gone)),
        "that version is not in its history"
    );

    let forbidden = r#"{"kind":"Status","code":403,"reason":"Forbidden","message":"configmaps is forbidden"}"#;
    let (closed, _) = server(403, forbidden, &Settings::default());
    let error = events(&closed, after("9")).await.unwrap_err();
    assert_eq!(error.to_string(), "the API server answered 403 Forbidden: configmaps is forbidden");
}
