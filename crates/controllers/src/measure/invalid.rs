//! Objects that our own check refuses. A condition or an Event tells whoever looks at the object; this tells whoever is on call.

use api::Object;
use api::validation::FieldError;
use runtime::cache::{Cache, Cached};
use runtime::metrics::{Family, Page};

const INVALID: Family<1> =
    Family::gauge("millwright_invalid_objects", "Objects whose spec is refused by our own check.", ["kind"]);

/// Counts the invalid objects of a kind; `None` while they have not been read.
pub(super) type Tally = Box<dyn Fn() -> Option<i64> + Send>;

/// How many objects of a cache are refused. What is being deleted is let go, whatever is wrong with it.
pub(super) fn tally<K>(cache: &Cache<K>, check: fn(&K) -> Vec<FieldError>) -> Tally
where
    K: Cached + Object + 'static,
{
    let cache = cache.clone();
    Box::new(move || {
        let objects = cache.is_synced().then(|| cache.list())?;
        let refused = objects.iter().filter(|object| !object.is_deleting() && !check(object).is_empty()).count();
        Some(i64::try_from(refused).unwrap_or(i64::MAX))
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
