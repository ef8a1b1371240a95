//! Number of objects that validation rejects. A condition or an Event of the object has the details; this metric is for alerts.

use api::Object;
use api::validation::FieldError;
use runtime::cache::{Cache, Cached};
use runtime::metrics::{Family, Page};

const INVALID: Family<1> = Family::gauge(
    "millwright_invalid_objects",
    "Objects whose spec is rejected by the validation of Millwright.",
    ["kind"],
);

/// Returns the number of invalid objects of a kind; `None` while the cache is not synced.
pub(super) type Tally = Box<dyn Fn() -> Option<i64> + Send>;

/// Counts the invalid objects of a cache. Objects that are being deleted are not counted: they are deleted even if they are invalid.
pub(super) fn tally<K>(cache: &Cache<K>, check: fn(&K) -> Vec<FieldError>) -> Tally
where
    K: Cached + Object + 'static,
{
    let cache = cache.clone();
    Box::new(move || {
        let objects = cache.is_synced().then(|| cache.list())?;
        let invalid = objects.iter().filter(|object| !object.is_deleting() && !check(object).is_empty()).count();
        Some(i64::try_from(invalid).unwrap_or(i64::MAX))
    })
}

pub(super) fn show(page: &mut Page<'_>, kinds: &[(&str, Tally)]) {
    page.family(&INVALID, |series| {
        for (kind, tally) in kinds {
            if let Some(count) = tally() {
                series.add([kind], count);
            }
        }
    });
}
