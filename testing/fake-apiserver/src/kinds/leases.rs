//! Leases: the numbers of the election protocol have to make sense.

use serde_json::Value;

use super::times::unreadable_micro_time;
use crate::resource::Rules;
use crate::schema::Cause;

/// What is special about leases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leases;

impl Rules for Leases {
    fn undecodable(&self, object: &Value) -> Option<String> {
        let times = ["/spec/acquireTime", "/spec/renewTime"];
        times.into_iter().filter_map(|path| object.pointer(path)).find_map(unreadable_micro_time)
    }

    fn validate(&self, object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        let rules = [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ];
        let broken = rules.into_iter().filter_map(|(field, least, rule)| {
            let value = object.get("spec")?.get(field)?;
            let low = value.as_i64().is_some_and(|number| number < least);
            low.then(|| Cause::invalid(format!("spec.{field}"), value, rule))
        });
        broken.collect()
    }
}
