//! Parses the reference page of all metrics.

use std::collections::BTreeMap;

/// Returns the labels of each family under a heading of `docs/reference/metrics.md`.
pub(super) fn documented(heading: &str) -> BTreeMap<String, Vec<String>> {
    let page = include_str!("../../../../../docs/reference/metrics.md");
    let section = page.split("\n## ").find_map(|section| section.strip_prefix(heading)).expect("a heading");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let mut labels: Vec<String> = cells[2].split(", ").filter(|label| *label != "–").map(str::to_owned).collect();
        labels.sort();
        (cells[0].trim_end_matches('`').to_owned(), labels)
    })
    .collect()
}
