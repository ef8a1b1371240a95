use super::*;
use ::http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use runtime::Random;
use runtime::queue::{Outcome, Queue, RetryPolicy, spawn_workers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn served(tasks: &Tasks, state_page: StatePage) -> Served {
    let clock = Clock::system();
    Served {
        metrics: Metrics::new().unwrap(),
        watchdog: tasks.watchdog().clone(),
        controller_state: ControllerState::new(LastDecisions::new(clock.clone())),
        state_page,
        clock,
    }
}

async fn ask(pages: &Pages, uri: &str) -> (StatusCode, String, String) {
    let answer = pages.answer(&Method::GET, &uri.parse().unwrap(), &HeaderMap::new()).await;
    let form = answer.headers()["content-type"].to_str().unwrap().to_owned();
    let (status, body) = (answer.status(), answer.into_body().collect().await.unwrap().to_bytes());
    (status, form, String::from_utf8(body.to_vec()).unwrap())
}

/// Shows HTT-1.
#[tokio::test(start_paused = true)]
async fn process_is_unhealthy_while_a_worker_is_stuck() {
    let tasks = Tasks::new();
    let _stopped = tasks.stop_on_drop();
    let pages = Pages::new(served(&tasks, StatePage::Hidden));
    let queue = Queue::new("machine", RetryPolicy::default(), &queue_metrics(), &Random::seeded(1));
    let (free, freed) = tokio::sync::watch::channel(false);
    spawn_workers(&tasks, queue.clone(), 1, move |_| {
        let mut freed = freed.clone();
        async move {
            let _ = freed.wait_for(|freed| *freed).await;
            Outcome::Done
        }
    });
    queue.add("default/m-1".to_owned());
    tokio::time::sleep(Duration::from_mins(9)).await;
    let healthy = (StatusCode::OK, "text/plain; charset=utf-8".to_owned(), "OK".to_owned());
    assert_eq!(ask(&pages, "/healthz").await, healthy);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (status, _, body) = ask(&pages, "/healthz").await;
    assert_eq!((status, body.as_str()), (StatusCode::INTERNAL_SERVER_ERROR, "Unhealthy"));
    free.send_replace(true);
    tokio::task::yield_now().await;
    assert_eq!(ask(&pages, "/healthz").await, healthy);
}

fn queue_metrics() -> Metrics {
    Metrics::new().unwrap()
}

/// Shows HTT-2.
#[tokio::test(start_paused = true)]
async fn process_is_healthy_after_a_suspension_of_an_hour() {
    let tasks = Tasks::new();
    let _stopped = tasks.stop_on_drop();
    let pages = Pages::new(served(&tasks, StatePage::Hidden));
    tasks.spawn("ticker", tick(tasks.watchdog().clone(), tasks.stopping()));
    tokio::task::yield_now().await;
    tokio::time::advance(Duration::from_hours(1)).await; // no task runs meanwhile
    assert_eq!(ask(&pages, "/healthz").await.0, StatusCode::OK);
}

/// Shows HTT-3.
#[tokio::test]
async fn process_is_healthy_but_not_ready_before_controllers_start() {
    let pages = Pages::new(served(&Tasks::new(), StatePage::Shown));
    assert_eq!(ask(&pages, "/healthz").await.0, StatusCode::OK);
    let (status, _, body) = ask(&pages, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.starts_with("not ready: the controllers are not started"), "{body}");
    assert_eq!(ask(&pages, "/debug/state").await.0, StatusCode::OK);
}

/// Shows HTT-5.
#[tokio::test]
async fn pages_have_the_expected_content_types() {
    let pages = Pages::new(served(&Tasks::new(), StatePage::Hidden));
    let (status, form, body) = ask(&pages, "/metrics").await;
    assert_eq!((status, form.as_str()), (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8"));
    assert!(body.contains("# TYPE") || body.is_empty(), "{body}");
    assert_eq!(ask(&pages, "/configz").await, (StatusCode::OK, "application/json".to_owned(), "{}".to_owned()));
    assert_eq!(ask(&pages, "/debug/pprof/").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&pages, "/debug/pprof/heap").await.0, StatusCode::NOT_FOUND);
    let (status, _, body) = ask(&pages, "/debug/state").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(body.contains("--profiling"), "{body}");
    let refused = pages.answer(&Method::POST, &"/healthz".parse().unwrap(), &HeaderMap::new()).await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()["allow"], "GET, HEAD");
}

/// Shows HTT-10.
#[tokio::test]
async fn pages_are_refused_if_a_browser_uses_a_foreign_name() {
    let pages = Pages::new(served(&Tasks::new(), StatePage::Shown));
    let browser = |host: &'static str| {
        HeaderMap::from_iter(
            [("host", host), ("accept-language", "en")]
                .map(|(name, value)| (::http::HeaderName::from_static(name), ::http::HeaderValue::from_static(value))),
        )
    };
    for (uri, foreign) in [("/metrics", 403), ("/debug/state", 403), ("/debug/state?o=json", 403), ("/healthz", 200)] {
        for (host, expected) in [("evil.example", foreign), ("10.0.0.1:10258", 200)] {
            let answer = pages.answer(&Method::GET, &uri.parse().unwrap(), &browser(host)).await;
            assert_eq!(answer.status(), expected, "{uri} of {host}");
        }
    }
}

/// Starts a server on a port of its own. It stops when the guard is dropped.
async fn open() -> (SocketAddr, impl Drop) {
    let listener = listen(IpAddr::from([127, 0, 0, 1]), 0, "--port").await.unwrap();
    let (address, tasks) = (listener.local_addr().unwrap(), Tasks::new());
    let guard = tasks.stop_on_drop();
    tasks.spawn("http", serve(listener, served(&tasks, StatePage::Hidden), tasks.clone()));
    (address, guard)
}

async fn get(address: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response
}

/// Shows HTT-7.
#[tokio::test]
async fn probe_is_served_despite_idle_connections() {
    let (address, _open) = open().await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    let response = get(address, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nOK"), "{response}");
    // The oldest connections were closed.
    let mut end = [0; 1];
    assert_eq!(idle[0].read(&mut end).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn head_has_no_body_and_invalid_request_gets_a_response() {
    let (address, _open) = open().await;
    let response = get(address, "HEAD /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\n"), "{response}");
    let response = get(address, "nonsense\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
}

#[tokio::test]
async fn error_for_a_used_port_names_the_flags() {
    let (address, _open) = open().await;
    let error = listen(address.ip(), address.port(), "--address and --port").await.unwrap_err();
    let response = error.to_string();
    assert!(response.contains(&address.to_string()) && response.contains("--address and --port"), "{response}");
}
