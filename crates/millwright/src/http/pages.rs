//! Which page is asked for, and what is on it.

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

/// How long after a bad look health is looked at again before it is told. A process that was stopped for a while wakes up with
/// everything late, and moves again at once.
const SECOND_LOOK: Duration = Duration::from_millis(300);

const DIRECTORY: &str =
    "There is /healthz, /readyz?verbose, /metrics and /configz here, and /debug/state with --profiling.\n";

/// A page, as it was asked for.
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

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Verbose,
}

/// For people, or for programs.
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

/// Answers requests for pages.
pub(super) struct Pages {
    served: Served,
    /// What costs time is made one at a time, however many ask.
    laborious: Semaphore,
}

/// A page that is ready to be sent.
struct PageBody {
    status: StatusCode,
    form: &'static str,
    body: String,
}

impl PageBody {
    fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, form: TEXT, body: body.into() }
    }
}

impl Pages {
    pub(super) fn new(served: Served) -> Self {
        Self { served, laborious: Semaphore::new(1) }
    }

    pub(super) async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = response(PageBody::text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n"));
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let page = Page::of(uri);
        if matches!(page, Page::Metrics | Page::State(_)) && rebinding::is_suspected(uri, headers) {
            return response(PageBody::text(StatusCode::FORBIDDEN, "Use an IP address or localhost.\n"));
        }
        response(self.page(page).await)
    }

    async fn page(&self, page: Page) -> PageBody {
        match page {
            Page::Health => self.health().await,
            Page::Readiness(detail) => {
                let (status, body) = readiness::told(&self.served, detail);
                PageBody::text(status, body)
            }
            Page::Metrics => {
                let metrics = self.served.metrics.clone();
                self.labour(move || match metrics.encode() {
                    Ok(body) => PageBody { status: StatusCode::OK, form: PROMETHEUS, body },
                    Err(error) => PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
                })
                .await
            }
            Page::Config => PageBody { status: StatusCode::OK, form: JSON, body: "{}".to_owned() },
            Page::State(_) if self.served.state_page == StatePage::Hidden => {
                PageBody::text(StatusCode::NOT_FOUND, "Shown only if the process was started with --profiling.\n")
            }
            Page::State(form) => {
                let (controller_state, watchdog, clock) =
                    (self.served.controller_state.clone(), self.served.watchdog.clone(), self.served.clock.clone());
                self.labour(move || {
                    let state = state::of(&controller_state, &watchdog, &clock);
                    match form {
                        Form::Text => PageBody::text(StatusCode::OK, state::readable(&state)),
                        Form::Json => PageBody { status: StatusCode::OK, form: JSON, body: state.to_string() },
                    }
                })
                .await
            }
            Page::Profiles => {
                PageBody::text(StatusCode::NOT_FOUND, "There are no Go profiles here; see /debug/state.\n")
            }
            Page::Unknown => PageBody::text(StatusCode::NOT_FOUND, DIRECTORY),
        }
    }

    /// The bodies are the reference's, to the letter. Who is stuck goes to the log.
    async fn health(&self) -> PageBody {
        if self.served.watchdog.stuck().is_empty() {
            return PageBody::text(StatusCode::OK, "OK");
        }
        tokio::time::sleep(SECOND_LOOK).await;
        let stuck = self.served.watchdog.stuck();
        for one in &stuck {
            tracing::error!("unhealthy: {one}; only a restart helps");
        }
        if stuck.is_empty() {
            PageBody::text(StatusCode::OK, "OK")
        } else {
            PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, "Unhealthy")
        }
    }

    /// Makes a page where it holds up nobody.
    async fn labour(&self, make: impl FnOnce() -> PageBody + Send + 'static) -> PageBody {
        let broken =
            || PageBody::text(StatusCode::INTERNAL_SERVER_ERROR, "This page could not be made; the log says why.\n");
        let Ok(_turn) = self.laborious.acquire().await else { return broken() };
        tokio::task::spawn_blocking(make).await.unwrap_or_else(|_| broken())
    }
}

fn response(PageBody { status, form, body }: PageBody) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_their_paths() {
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
