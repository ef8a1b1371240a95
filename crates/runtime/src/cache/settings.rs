//! Which objects a cache holds and how it asks for them.

use std::time::Duration;

use super::retry_signal::RetrySignal;

/// What to read, and how. [`Cache::builder`](super::Cache::builder) fills it in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Only this namespace; all of them if `None`.
    pub namespace: Option<String>,
    /// Only objects with these labels.
    pub labels: Option<String>,
    /// Only objects with these fields, such as `spec.nodeName=a`.
    pub fields: Option<String>,
    /// How much of each object.
    pub form: Form,
    /// How a whole kind is read.
    pub listing: Listing,
    /// How fresh an ordinary list must be. A refresh and the list after a regression always use quorum.
    pub reading: Reading,
    /// Objects per page of a plain list.
    pub page: u32,
    /// The shortest time after which the server is asked to end a watch; bounds how long a dead connection goes unseen.
    /// Longer than the minute between bookmarks: a watch that ends without one has to prove itself by a small list.
    pub watch_at_least: Duration,
    /// The longest; drawn at random in between, so that watches do not all end together.
    pub watch_at_most: Duration,
    /// How long past that time we wait for the server to do so.
    pub watch_grace: Duration,
    /// How long a watch may take to be accepted.
    pub open_within: Duration,
    /// How long one page of a list may take.
    pub page_within: Duration,
    /// How long a streamed list may take before the server is taken for one that does not know them.
    pub stream_within: Duration,
    /// Who tells that an API server answers again.
    pub retry_signal: RetrySignal,
}

/// How much of an object is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// All of it.
    #[default]
    Whole,
    /// Its metadata only; the rest never leaves the API server.
    Metadata,
}

/// How a whole kind is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listing {
    /// Page by page.
    #[default]
    Paged,
    /// As the beginning of a watch, which spares the server the memory; page by page if it does not know how.
    Streamed,
}

/// How fresh a list must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// At least as new as the moment it was asked for.
    #[default]
    Quorum,
    /// Whatever the server has in memory, possibly older than what we have already seen.
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
