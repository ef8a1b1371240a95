//! A plain list, page by page, collected completely before anybody sees it.

use std::time::Duration;

use tokio::time::timeout;

use super::decoded::Decoded;
use super::list_watch::{ListAsk, ListWatch, ListWatchError};
use super::settings::{Reading, Settings};
use super::store::Cached;
use super::version::Version;

/// A whole list.
pub(super) struct Collected<K> {
    pub(super) version: Version,
    pub(super) items: Vec<Decoded<K>>,
}

/// All pages of a plain list.
pub(super) async fn collect<K: Cached>(
    list_watch: &impl ListWatch<K>,
    settings: &Settings,
    reading: Reading,
) -> Result<Collected<K>, ListWatchError> {
    // The API server answers a cached list whole, whatever the limit.
    let cached = reading == Reading::Cached;
    let mut limit = (!cached).then_some(settings.page);
    let mut next: Option<String> = None;
    let mut first: Option<Version> = None;
    let mut items = Vec::new();
    loop {
        let ask = ListAsk { limit, next: next.take(), cached };
        let continued = ask.next.is_some();
        let page = match within(settings.page_within, list_watch.list(ask)).await {
            // The rest of this list is no longer to be had; one without pages cannot expire half-way.
            Err(ListWatchError::Gone) if continued => {
                items.clear();
                first = None;
                limit = None;
                continue;
            }
            page => page?,
        };
        items.extend(page.items);
        // All pages are of one version. Should they not be, events shown twice do no harm, and skipped ones do.
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
