//! The pages of the HTTP endpoints.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::Full;
use tokio::sync::Semaphore;

use super::{Served, StatePage, readiness, rebinding, state};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Delay before a failed health check is repeated. After a suspension of the process all timers are late, and recover
/// immediately.
const RECHECK_DELAY: Duration = Duration::from_millis(300);

const DIRECTORY: &str =
    "Endpoints: /healthz, /readyz?verbose, /metrics, /configz, and /debug/state with --profiling.\n";

/// A requested page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Health,
    Readiness(Detail),
    Metrics,
    Config,
    State(Form),
    Profiles,
    Unknown,
}

/// Level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Verbose,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

impl Page {
    fn of(uri: &Uri) -> Self {
        let has = |wanted: &str| uri.query().unwrap_or_default().split('&').any(|part| part == wanted);
        match uri.path() {
            "/healthz" => Self::Health,
            "/readyz" if has("verbose") || has("verbose=true") || has("verbose=1") => Self::Readiness(Detail::Verbose),
            "/readyz" => Self::Readiness(Detail::Brief),
            "/metrics" => Self::Metrics,
            "/configz" => Self::Config,
            "/debug/state" if has("o=json") => Self::State(Form::Json),
            "/debug/state" => Self::State(Form::Text),
            path if path == "/debug/pprof" || path.starts_with("/debug/pprof/") => Self::Profiles,
            _ => Self::Unknown,
        }
    }
}

/// Serves the pages.
pub(super) struct Pages {
    served: Served,
    /// Expensive pages are built one at a time.
    expensive: Semaphore,
}

/// A page that is ready to be sent.
struct PageBody {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

impl PageBody {
    fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: TEXT, body: body.into() }
    }
}

impl Pages {
    pub(super) fn new(served: Served) -> Self {
        Self { served, expensive: Semaphore::new(1) }
    }

    pub(super) async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal =
                response(PageBody::text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD are supported.\n"));
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let page = Page::of(uri);
        if matches!(page, Page::Metrics | Page::State(_)) && rebinding::is_suspected(uri, headers) {
            return response(PageBody::text(StatusCode::FORBIDDEN, "Use an IP address or localhost as host name.\n"));
        }
        response(self.page(page).await)
    }

    async fn page(&self, page: Page) -> PageBody {
        match page {
            Page::Health => self.health().await,
            Page::Readiness(detail) => {
                let (status, body) = readiness::readiness(&self.served, detail);
                PageBody::text(status, body)
            }
            Page::Metrics => {
                let metrics = self.served.metrics.clone();
                self.build(move || match metrics.encode() {
                    Ok(body) => PageBody { status: StatusCode::OK, content_type: PROMETHEUS, body },
                    Err(error) => PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
                })
                .await
            }
            Page::Config => PageBody { status: StatusCode::OK, content_type: JSON, body: "{}".to_owned() },
            Page::State(_) if self.served.state_page == StatePage::Hidden => {
                PageBody::text(StatusCode::NOT_FOUND, "This page requires --profiling.\n")
            }
            Page::State(format) => {
                let (controller_state, watchdog, clock) =
                    (self.served.controller_state.clone(), self.served.watchdog.clone(), self.served.clock.clone());
                self.build(move || {
                    let state = state::of(&controller_state, &watchdog, &clock);
                    match format {
                        Form::Text => PageBody::text(StatusCode::OK, state::readable(&state)),
                        Form::Json => PageBody { status: StatusCode::OK, content_type: JSON, body: state.to_string() },
                    }
                })
                .await
            }
            Page::Profiles => PageBody::text(StatusCode::NOT_FOUND, "Go profiles do not exist; see /debug/state.\n"),
            Page::Unknown => PageBody::text(StatusCode::NOT_FOUND, DIRECTORY),
        }
    }

    /// Returns the health. The bodies are byte for byte those of MCM. Stuck tasks are logged.
    async fn health(&self) -> PageBody {
        if self.served.watchdog.stuck().is_empty() {
            return PageBody::text(StatusCode::OK, "OK");
        }
        tokio::time::sleep(RECHECK_DELAY).await;
        let stuck = self.served.watchdog.stuck();
        for one in &stuck {
            tracing::error!(task = %one, "detected a stuck task; reporting unhealthy");
        }
        if stuck.is_empty() {
            PageBody::text(StatusCode::OK, "OK")
        } else {
            PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, "Unhealthy")
        }
    }

    /// Builds an expensive page on a blocking thread.
    async fn build(&self, make: impl FnOnce() -> PageBody + Send + 'static) -> PageBody {
        let failed = || PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, "Failed to build the page; see the log.\n");
        let Ok(_permit) = self.expensive.acquire().await else { return failed() };
        tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| failed())
    }
}

fn response(PageBody { status, content_type, body }: PageBody) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_select_pages() {
        let page = |uri: &str| Page::of(&uri.parse().unwrap());
        assert_eq!(page("/healthz"), Page::Health);
        assert_eq!(page("/readyz?verbose"), Page::Readiness(Detail::Verbose));
        assert_eq!(page("/readyz?exclude=x"), Page::Readiness(Detail::Brief));
        assert_eq!(page("/debug/state?o=json"), Page::State(Form::Json));
        assert_eq!(page("/debug/pprof/heap?debug=1"), Page::Profiles);
        assert_eq!(page("/debug/pproftastic"), Page::Unknown);
        assert_eq!(page("/"), Page::Unknown);
    }
}
