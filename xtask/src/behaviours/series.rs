//! The numbered rules that must be accounted for.
//!
//! They come from the description of the reference that Millwright replaces: how it moves a machine from phase to phase, how it
//! deletes one, and every weakness that was found in it. Nobody may drop one in silence, so the list is data here and not only
//! rows there.

use std::collections::BTreeMap;

/// A run of numbers from 1: `MC-H1` … `MC-H11`.
struct Series {
    prefix: &'static str,
    last: usize,
}

const REQUIRED: &[Series] = &[
    // The machine controller: health transitions, deletion steps, weaknesses.
    Series { prefix: "MC-H", last: 11 },
    Series { prefix: "MC-D", last: 7 },
    Series { prefix: "MC-W", last: 78 },
    // The drain's oddities.
    Series { prefix: "DR-Q", last: 19 },
    // The weaknesses of sets, with the overshoot safety, and of deployments.
    Series { prefix: "MS-W", last: 21 },
    Series { prefix: "MD-D", last: 28 },
];

/// What is wrong with these ids as a whole: missing, told twice, or beyond the end of a series.
pub(super) fn complaints<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for id in ids {
        *times.entry(id).or_default() += 1;
    }
    let mut complaints: Vec<String> = times
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|(id, times)| format!("{id} is listed {times} times"))
        .collect();
    for Series { prefix, last } in REQUIRED {
        let missing = (1..=*last).map(|n| format!("{prefix}{n}")).filter(|id| !times.contains_key(id.as_str()));
        complaints.extend(missing.map(|id| format!("{id} is missing")));
        let beyond = times.keys().filter(|id| {
            id.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok()).is_some_and(|n| n == 0 || n > *last)
        });
        complaints.extend(beyond.map(|id| format!("{id} does not exist: {prefix} ends at {last}")));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_id() -> Vec<String> {
        REQUIRED.iter().flat_map(|s| (1..=s.last).map(|n| format!("{}{n}", s.prefix))).collect()
    }

    #[test]
    fn every_required_rule_told_once_is_enough() {
        let mut ids = every_id();
        ids.push("API-1".into());
        assert_eq!(complaints(ids.iter().map(String::as_str)), [""; 0]);
    }

    /// Shows WS-3.
    #[test]
    fn a_rule_that_is_missing_told_twice_or_made_up_is_named() {
        let mut ids = every_id();
        ids.retain(|id| id != "DR-Q7");
        ids.extend(["MC-W78".into(), "MD-D29".into()]);
        let mut said = complaints(ids.iter().map(String::as_str));
        said.sort_unstable();
        assert_eq!(said, ["DR-Q7 is missing", "MC-W78 is listed 2 times", "MD-D29 does not exist: MD-D ends at 28"]);
    }
}
