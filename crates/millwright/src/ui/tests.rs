//! Tests of the web view with controllers that have no objects.

#![allow(clippy::unwrap_used, reason = "the lint spares tests, but not the functions that tests share")]

use std::sync::Arc;

use controllers::Decision;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use runtime::Clock;
use runtime::lease::Leadership;

use super::server::Handler;
use super::{Access, Timeline, View};
use crate::demo::environment::{Environment, EnvironmentOptions};

fn handler() -> (Handler, Environment) {
    let environment = Environment::start(EnvironmentOptions::demo(), Arc::new(|_: &Decision| {})).unwrap();
    let clock = Clock::system();
    let view = View {
        cluster: environment.cluster.clone(),
        timeline: Timeline::new(clock.clone()),
        leadership: Leadership::unguarded(),
        clock,
    };
    (Handler { view, access: Access::Loopback }, environment)
}

fn request(method: Method, path: &str, host: &str) -> Request<()> {
    Request::builder().method(method).uri(path).header("host", host).body(()).unwrap()
}

/// Shows OPR-12.
#[tokio::test]
async fn page_is_public_and_loads_nothing_from_other_hosts() {
    let (handler, environment) = handler();
    for path in ["/", "/style.css", "/view.js", "/icon.svg"] {
        let answer = handler.answer(&request(Method::GET, path, "any.example")).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let elsewhere = text.split("http").skip(1).find(|rest| !rest.starts_with("://www.w3.org/2000/svg"));
        assert_eq!(elsewhere, None, "{path}");
    }
    environment.shut_down().await;
}

/// Shows OPR-11.
#[tokio::test]
async fn data_is_refused_under_a_foreign_host_name() {
    let (handler, environment) = handler();
    for path in ["/events", "/explain?kind=machine&name=m"] {
        let answer = handler.answer(&request(Method::GET, path, "evil.example")).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let posted = handler.answer(&request(Method::POST, "/events", "localhost")).await;
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    let nowhere = handler.answer(&request(Method::GET, "/debug/state", "localhost")).await;
    assert_eq!(nowhere.status(), StatusCode::NOT_FOUND);
    let gone = handler.answer(&request(Method::GET, "/explain?kind=machine&name=m", "localhost")).await;
    assert_eq!(gone.status(), StatusCode::NOT_FOUND);
    let unsaid = handler.answer(&request(Method::GET, "/explain?kind=pod&name=m", "localhost")).await;
    assert_eq!(unsaid.status(), StatusCode::BAD_REQUEST);
    environment.shut_down().await;
}

/// Shows OPR-10.
#[tokio::test]
async fn first_event_contains_the_whole_state() {
    let (handler, environment) = handler();
    let mut answer = handler.answer(&request(Method::GET, "/events", "127.0.0.1")).await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let frame = answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let text = String::from_utf8(frame.to_vec()).unwrap();
    let data = text.strip_prefix("event: everything\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!((&data["namespace"], &data["leads"]), (&"demo".into(), &true.into()));
    assert!(data["pools"].is_array() && data["drains"].is_array() && data["calls"].is_array(), "{data}");
    environment.shut_down().await;
}
