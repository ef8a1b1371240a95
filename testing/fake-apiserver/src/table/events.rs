//! Events, as they are listed.

use serde_json::{Value, json};

use super::look::Look;

pub(super) const COLUMNS: &[&str] =
    &["Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message", "First Seen+", "Count+", "Name+"];

pub(super) fn cells(event: Look<'_>) -> Vec<Value> {
    let first = if event.time("/firstTimestamp").is_some() { "/firstTimestamp" } else { "/eventTime" };
    let (last, count) = if event.get("/series").is_some() {
        ("/series/lastObservedTime", event.number("/series/count"))
    } else {
        // An event that happened once and was written the new way has no count.
        let last = if event.time("/lastTimestamp").is_some() { "/lastTimestamp" } else { first };
        (last, event.number("/count").max(1))
    };
    let (kind, name) = (event.text("/involvedObject/kind").to_lowercase(), event.text("/involvedObject/name"));
    let component = event.text_or("/source/component", event.text("/reportingComponent"));
    let instance = event.text_or("/source/host", event.text("/reportingInstance"));
    vec![
        json!(event.since(last)),
        json!(event.text("/type")),
        json!(event.text("/reason")),
        json!(if name.is_empty() { kind } else { format!("{kind}/{name}") }),
        json!(event.text("/involvedObject/fieldPath")),
        json!(if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }),
        json!(event.text("/message").trim()),
        json!(event.since(first)),
        json!(count),
        event.name(),
    ]
}
