//! The last column of a rule: what shows the rule besides tests.

/// Values that may follow `waits for:`.
const PLANNED: &[&str] = &["machine controller", "drain", "sets and deployments", "servers", "api servers"];

/// One entry of the column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A back-quoted command that CI runs.
    Chore(String),
    /// A link to a page under `adr/`.
    Decision(String),
    /// `waits for:` and the work that will implement the rule.
    WaitsFor(String),
}

/// Reads the entries of a cell in their order. Other words in the cell are ignored.
pub(super) fn read(cell: &str) -> Result<Vec<Evidence>, String> {
    let mut found = Vec::new();
    for quoted in cell.split('`').skip(1).step_by(2) {
        if !quoted.starts_with("cargo ") {
            return Err(format!(
                "`{quoted}` is not a command of CI; a test names its rules in a comment `/// Shows ID.`"
            ));
        }
        found.push(Evidence::Chore(quoted.to_owned()));
    }
    for link in cell.split("](").skip(1) {
        let target = link.split(')').next().unwrap_or_default();
        if !is_decision(target) {
            return Err(format!("{target:?} is not an ADR; link to adr/NNNN-title.md"));
        }
        found.push(Evidence::Decision(target.to_owned()));
    }
    for rest in cell.split("waits for:").skip(1) {
        let work = rest.split([';', '`', '[', ',']).next().unwrap_or_default().trim();
        if !PLANNED.contains(&work) {
            return Err(format!("{work:?} is not planned work; use one of {}", PLANNED.join(", ")));
        }
        found.push(Evidence::WaitsFor(work.to_owned()));
    }
    Ok(found)
}

/// Whether the target is `adr/0001-title.md`, relative to any page.
fn is_decision(target: &str) -> bool {
    let Some((_, page)) = target.rsplit_once("adr/") else { return false };
    let Some((number, title)) = page.split_once('-') else { return false };
    number.len() == 4
        && number.chars().all(|c| c.is_ascii_digit())
        && title.rsplit_once('.').is_some_and(|(_, end)| end == "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_lists_chores_decisions_and_planned_work() {
        let cell = "`cargo xtask purity`, [0002](../adr/0002-lean-views.md), waits for: drain; waits for: servers";
        assert_eq!(
            read(cell).unwrap(),
            [
                Evidence::Chore("cargo xtask purity".into()),
                Evidence::Decision("../adr/0002-lean-views.md".into()),
                Evidence::WaitsFor("drain".into()),
                Evidence::WaitsFor("servers".into()),
            ]
        );
        assert_eq!(read("").unwrap(), []);
    }

    #[test]
    fn cell_is_rejected_when_it_names_a_test_or_an_unknown_page() {
        for cell in ["waits for: better times", "`a_test`", "[x](elsewhere.md)", "[x](adr/one.md)"] {
            assert!(read(cell).is_err(), "{cell:?} passed");
        }
    }
}
