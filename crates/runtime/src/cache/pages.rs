//! Collects all pages of a plain list before any object is applied.

use std::time::Duration;

use tokio::time::timeout;

use super::decoded::Decoded;
use super::list_watch::{ListAsk, ListWatch, ListWatchError};
use super::settings::{Reading, Settings};
use super::store::Cached;
use super::version::Version;

/// A complete list.
pub(super) struct Collected<K> {
    pub(super) version: Version,
    pub(super) items: Vec<Decoded<K>>,
}

/// Requests all pages of a plain list.
pub(super) async fn collect<K: Cached>(
    list_watch: &impl ListWatch<K>,
    settings: &Settings,
    reading: Reading,
) -> Result<Collected<K>, ListWatchError> {
    // The API server ignores the limit of a cached list.
    let cached = reading == Reading::Cached;
    let mut limit = (!cached).then_some(settings.page);
    let mut next: Option<String> = None;
    let mut first: Option<Version> = None;
    let mut items = Vec::new();
    loop {
        let ask = ListAsk { limit, next: next.take(), cached };
        let continued = ask.next.is_some();
        let page = match within(settings.page_within, list_watch.list(ask)).await {
            // The continue token expired. A list without pages cannot expire.
            Err(ListWatchError::Gone) if continued => {
                items.clear();
                first = None;
                limit = None;
                continue;
            }
            page => page?,
        };
        items.extend(page.items);
        // All pages have the same version. If they do not, repeated events are harmless and missed events are not: use
        // the oldest.
        let version = first.take().map_or(page.version.clone(), |first| first.older_of(page.version));
        match page.next {
            Some(token) => (next, first) = (Some(token), Some(version)),
            None => return Ok(Collected { version, items }),
        }
    }
}

pub(super) async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, ListWatchError>>,
) -> Result<T, ListWatchError> {
    timeout(limit, answer).await.unwrap_or(Err(ListWatchError::Late(limit)))
}
