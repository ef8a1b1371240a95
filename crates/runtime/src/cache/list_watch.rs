//! List and watch requests to the API server, and their decoded responses.
//!
//! kube's typed calls are not used, for two reasons: one undecodable object fails a whole page, and the text that could
//! not be decoded is logged, although it may be a Secret. Here each object is decoded separately from the raw text.

use std::future::Future;
use std::time::Duration;

use futures::io::{AsyncBufReadExt, AsyncReadExt};
use futures::stream::{self, BoxStream, StreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use kube::Client;
use kube::api::{ListParams, Request, WatchParams};
use kube::core::Status;
use meta::error_chain;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::decoded::Decoded;
use super::settings::{Form, Settings};
use super::signal::DisconnectReason;
use super::store::Cached;
use super::version::Version;

/// Request for one page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListAsk {
    /// Maximum number of objects; no limit if `None`.
    pub(super) limit: Option<u32>,
    /// Continue token of the previous page.
    pub(super) next: Option<String>,
    /// Accepts any version (`resourceVersion=0`).
    pub(super) cached: bool,
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page<K> {
    pub(super) version: Version,
    pub(super) next: Option<String>,
    pub(super) items: Vec<Decoded<K>>,
}

/// Request for a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchAsk {
    pub(super) from: Start,
    /// Time after which the server should end the watch.
    pub(super) lasting: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Starts after this version.
    After(Version),
    /// Starts with all existing objects, followed by a bookmark.
    Everything,
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum Event<K> {
    Applied(Decoded<K>),
    Ended(Decoded<K>),
    /// Everything up to here was sent; `complete` also marks the end of the initial events.
    Bookmark {
        version: Version,
        complete: bool,
    },
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListWatchError {
    /// The requested version is no longer (or not yet) in the server's history.
    #[error("the API server no longer has the requested history")]
    Gone,
    /// The server rejected the request.
    #[error("the API server answered {} {}: {}", .0.code, .0.reason, .0.message)]
    Refused(Box<Status>),
    /// There was no response, or it was incomplete.
    #[error("the API server could not be reached: {0}")]
    Unreachable(String),
    /// The response could not be decoded; `0` contains the position, not the content.
    #[error("failed to decode the response of the API server: {0}")]
    Garbled(String),
    /// The response timed out.
    #[error("the API server did not answer within {} s", .0.as_secs())]
    Late(Duration),
}

impl ListWatchError {
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Gone => Some(410),
            Self::Unreachable(_) | Self::Garbled(_) | Self::Late(_) => None,
        }
    }

    /// Returns the reason for the disconnection of the watch.
    pub(super) fn disconnect_reason(&self) -> DisconnectReason {
        match self.code() {
            Some(403..=405) => DisconnectReason::Refused,
            _ => DisconnectReason::Unreachable,
        }
    }

    /// Returns whether the server may have been stopped: it did not respond, or a proxy responded that cannot reach it
    /// or its etcd. A rejected or throttled request was answered by the server.
    pub(super) fn is_unanswered(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late(_) => true,
            Self::Refused(status) => status.code >= 500,
            Self::Gone | Self::Garbled(_) => false,
        }
    }

    /// Returns the Retry-After interval of the server.
    pub(super) fn retry_after(&self) -> Duration {
        let Self::Refused(status) = self else { return Duration::ZERO };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Duration::from_secs(u64::from(seconds))
    }

    fn from_status(status: Box<Status>) -> Self {
        let too_large = |status: &Status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        };
        if status.code == 410 || too_large(&status) { Self::Gone } else { Self::Refused(status) }
    }
}

impl From<kube::Error> for ListWatchError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::from_status(status),
            other => Self::Unreachable(error_chain(&other)),
        }
    }
}

pub(super) type Events<K> = BoxStream<'static, Result<Event<K>, ListWatchError>>;

/// The I/O of a cache; scripted in tests.
pub(super) trait ListWatch<K>: Send + Sync {
    fn list(&self, ask: ListAsk) -> impl Future<Output = Result<Page<K>, ListWatchError>> + Send;
    fn watch(&self, ask: WatchAsk) -> impl Future<Output = Result<Events<K>, ListWatchError>> + Send;
}

/// The API server behind a client.
pub(super) struct ApiServer {
    client: Client,
    request: Request,
    labels: Option<String>,
    fields: Option<String>,
    form: Form,
}

impl ApiServer {
    pub(super) fn new<K: Cached>(client: Client, settings: &Settings) -> Self {
        Self {
            client,
            request: Request::new(K::url_path(settings.namespace.as_deref())),
            labels: settings.labels.clone(),
            fields: settings.fields.clone(),
            form: settings.form,
        }
    }

    fn accept(&self, whole: &'static str, metadata: &'static str) -> HeaderValue {
        HeaderValue::from_static(match self.form {
            Form::Whole => whole,
            Form::Metadata => metadata,
        })
    }
}

impl<K: Cached> ListWatch<K> for ApiServer {
    async fn list(&self, ask: ListAsk) -> Result<Page<K>, ListWatchError> {
        let params = ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            limit: ask.limit,
            continue_token: ask.next,
            resource_version: ask.cached.then(|| "0".to_owned()),
            ..ListParams::default()
        };
        let mut request = self.request.list(&params).map_err(kube::Error::BuildRequest)?;
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        request.headers_mut().insert(ACCEPT, self.accept("application/json", metadata));
        let mut body = Box::pin(self.client.request_stream(request).await?);
        let mut text = Vec::new();
        body.read_to_end(&mut text).await.map_err(|error| ListWatchError::Unreachable(error_chain(&error)))?;
        read_page(&text)
    }

    async fn watch(&self, ask: WatchAsk) -> Result<Events<K>, ListWatchError> {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            timeout: Some(u32::try_from(ask.lasting.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            send_initial_events: ask.from == Start::Everything,
        };
        let from = match &ask.from {
            Start::After(version) => version.as_str(),
            Start::Everything => "",
        };
        let mut request = self.request.watch(&params, from).map_err(kube::Error::BuildRequest)?;
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        request.headers_mut().insert(ACCEPT, self.accept("application/json", metadata));
        // Servers from 1.37 on compress watches one event at a time, and tower-http reads only the first of them.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let body = Box::pin(self.client.request_stream(request).await?);
        let lines = stream::unfold((body, Vec::new()), |(mut body, mut line)| async move {
            line.clear();
            match body.read_until(b'\n', &mut line).await {
                Ok(0) => None,
                // An incomplete line is the end of the stream, not an event.
                Ok(_) => match read_line(&line) {
                    Err(_) if line.last() != Some(&b'\n') => None,
                    read => Some((read, (body, line))),
                },
                Err(error) => Some((Err(ListWatchError::Unreachable(error_chain(&error))), (body, line))),
            }
        });
        Ok(lines.boxed())
    }
}

#[derive(Deserialize)]
struct PageText<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    r#continue: Option<String>,
}

fn read_page<K: Cached>(text: &[u8]) -> Result<Page<K>, ListWatchError> {
    let page: PageText<'_> = serde_json::from_slice(text).map_err(|error| garbled("a list", &error))?;
    if page.metadata.resource_version.is_empty() {
        // If this were taken for an empty list, every object would vanish.
        return Err(ListWatchError::Garbled("a list without a resourceVersion".to_owned()));
    }
    let raw = page.items.unwrap_or_default();
    let items: Vec<_> = raw.iter().filter_map(|item| Decoded::read(item.get())).collect();
    let nameless = raw.len() - items.len();
    if nameless > 0 {
        // Any object that is missing from this list may be one of them, so the list does not prove absence.
        return Err(ListWatchError::Garbled(format!("{nameless} of {} items of a list have no name", raw.len())));
    }
    Ok(Page {
        version: Version::new(page.metadata.resource_version),
        next: page.metadata.r#continue.filter(|token| !token.is_empty()),
        items,
    })
}

#[derive(Deserialize)]
struct LineText<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkText {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

fn read_line<K: Cached>(line: &[u8]) -> Result<Event<K>, ListWatchError> {
    let event: LineText<'_> = serde_json::from_slice(line).map_err(|error| garbled("an event", &error))?;
    let object = || {
        Decoded::read(event.object.get())
            .ok_or_else(|| ListWatchError::Garbled("an event about an object without a name".to_owned()))
    };
    match event.r#type {
        "ADDED" | "MODIFIED" => Ok(Event::Applied(object()?)),
        "DELETED" => Ok(Event::Ended(object()?)),
        "BOOKMARK" => {
            let mark: BookmarkText =
                serde_json::from_str(event.object.get()).map_err(|error| garbled("a bookmark", &error))?;
            let annotations = mark.metadata.annotations.unwrap_or_default();
            let complete = annotations.get("k8s.io/initial-events-end").is_some_and(|value| value == "true");
            Ok(Event::Bookmark { version: Version::new(mark.metadata.resource_version), complete })
        }
        "ERROR" => Err(serde_json::from_str::<Status>(event.object.get())
            .map_or_else(|error| garbled("an error", &error), |status| ListWatchError::from_status(Box::new(status)))),
        other => Err(ListWatchError::Garbled(format!("an event of the unknown type {other:?}"))),
    }
}

fn garbled(what: &str, error: &serde_json::Error) -> ListWatchError {
    ListWatchError::Garbled(format!("{what} broke at line {} column {}", error.line(), error.column()))
}

#[cfg(test)]
mod tests;
