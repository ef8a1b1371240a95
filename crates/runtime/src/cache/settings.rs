//! Which objects a cache stores and how it requests them.

use std::time::Duration;

use super::retry_signal::RetrySignal;

/// Settings of a cache. [`Cache::builder`](super::Cache::builder) fills them in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace; all namespaces if `None`.
    pub namespace: Option<String>,
    /// Label selector.
    pub labels: Option<String>,
    /// Field selector, such as `spec.nodeName=a`.
    pub fields: Option<String>,
    /// Which part of each object is requested.
    pub form: Form,
    /// How a whole kind is listed.
    pub listing: Listing,
    /// Required freshness of an ordinary list. A refresh and the list after a regression always use quorum.
    pub reading: Reading,
    /// Objects per page of a plain list.
    pub page: u32,
    /// Minimum duration of a watch. The server ends the watch after the requested time, which limits how long a dead
    /// connection is not detected. Longer than one minute, the interval of bookmarks: a watch that ends without a
    /// bookmark is followed by a probe.
    pub watch_at_least: Duration,
    /// Maximum duration of a watch. The duration is random, so that watches do not all end together.
    pub watch_at_most: Duration,
    /// Time after that duration until the watch is aborted.
    pub watch_grace: Duration,
    /// Timeout for the response to a watch request.
    pub open_within: Duration,
    /// Timeout for one page of a list.
    pub page_within: Duration,
    /// Timeout for a streamed list. After it, the server is assumed not to support streamed lists.
    pub stream_within: Duration,
    /// Signal to retry when an API server responds again.
    pub retry_signal: RetrySignal,
}

/// Which part of an object is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The whole object.
    #[default]
    Whole,
    /// Its metadata only; the API server does not send the rest.
    Metadata,
}

/// How a whole kind is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Page by page.
    #[default]
    Paged,
    /// As the beginning of a watch, which needs less memory in the server. Page by page if the server does not support
    /// it.
    Streamed,
}

/// Required freshness of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// At least as new as the request.
    #[default]
    Quorum,
    /// From the watch cache of the server; possibly older than what was already seen.
    Cached,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            labels: None,
            fields: None,
            form: Form::default(),
            listing: Listing::default(),
            reading: Reading::default(),
            page: 500,
            watch_at_least: Duration::from_secs(70),
            watch_at_most: Duration::from_mins(2),
            watch_grace: Duration::from_secs(10),
            open_within: Duration::from_secs(30),
            page_within: Duration::from_mins(1),
            stream_within: Duration::from_secs(30),
            retry_signal: RetrySignal::default(),
        }
    }
}
