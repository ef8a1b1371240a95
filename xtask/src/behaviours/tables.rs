//! Rules in markdown tables. A table whose first column is headed `id` holds rules; every other table is prose.
//!
//! The columns are `id`, what Millwright does, how that relates to the reference, and what shows it.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// How a rule relates to what the reference does.
const RELATIONS: &[&str] = &["promise", "kept", "repaired", "opt-in"];

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    /// The headings it stands under.
    pub(super) area: String,
    /// Its name.
    pub(super) id: String,
    /// The last column, as written.
    pub(super) shown_by: String,
    /// The file it is in; links are relative to it.
    pub(super) page: PathBuf,
    line: usize,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{} ({page}:{})", self.id, self.line)
    }
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Prose,
    Rules,
    OtherTable,
}

/// All rules of a page, in order.
pub(super) fn read(page: &Path, text: &str) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    let (mut title, mut area) = ("", String::new());
    let mut place = Place::Prose;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(heading) = line.strip_prefix("# ") {
            title = heading.trim();
            title.clone_into(&mut area);
        } else if let Some(heading) = line.strip_prefix("## ") {
            area = format!("{title}: {}", heading.trim().to_lowercase());
        }
        let Some(cells) = cells(line) else {
            place = Place::Prose;
            continue;
        };
        match place {
            Place::Prose => {
                let rules = cells.first().is_some_and(|head| head.eq_ignore_ascii_case("id"));
                place = if rules { Place::Rules } else { Place::OtherTable };
            }
            Place::Rules if !is_ruler(&cells) => {
                rules.push(rule(page, number, &area, &cells).with_context(|| format!("line {number}"))?);
            }
            Place::Rules | Place::OtherTable => {}
        }
    }
    Ok(rules)
}

fn rule(page: &Path, line: usize, area: &str, cells: &[&str]) -> anyhow::Result<Rule> {
    let [id, what, how, shown_by] = cells else {
        bail!("a rule has four columns (id, what, how, also shown by), this row has {}", cells.len());
    };
    if id.is_empty() || what.is_empty() {
        bail!("a rule needs an id and a sentence");
    }
    if !RELATIONS.contains(how) {
        bail!("{id}: {how:?} is none of {}", RELATIONS.join(", "));
    }
    let (area, id, shown_by) = (area.to_owned(), (*id).to_owned(), (*shown_by).to_owned());
    Ok(Rule { area, id, shown_by, page: page.to_path_buf(), line })
}

/// The cells of a table row; `None` for any other line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    Some(inner.split('|').map(str::trim).collect())
}

/// The line of dashes below the head.
fn is_ruler(cells: &[&str]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &str) -> anyhow::Result<Vec<Rule>> {
        let text = format!(
            "# Rules\n\n| file | what |\n|---|---|\n| a | b |\n\n## Drain\n\n| id | what | how | also shown by |\n| --- | :-- | --- | --- |\n{rows}\n"
        );
        read(Path::new("docs/x.md"), &text)
    }

    #[test]
    fn a_row_is_a_rule_under_its_heading_and_other_tables_are_prose() {
        let rules =
            page("| DR-Q1 | it drains | kept | `a_test` |\n| DR-Q2 | it waits | opt-in | waits for: drain |").unwrap();
        let seen: Vec<_> = rules.iter().map(|r| (r.area.as_str(), r.id.as_str(), r.shown_by.as_str())).collect();
        assert_eq!(seen, [("Rules: drain", "DR-Q1", "`a_test`"), ("Rules: drain", "DR-Q2", "waits for: drain")]);
        assert_eq!(rules[1].to_string(), "DR-Q2 (x.md:12)");
    }

    #[test]
    fn a_row_that_cannot_be_understood_is_an_error_and_not_skipped() {
        assert!(page("| DR-Q1 | it drains | `a_test` |").is_err());
        assert!(page("| DR-Q1 | it drains | fixed | `a_test` |").is_err());
        assert!(page("| DR-Q1 |  | kept | `a_test` |").is_err());
    }
}
