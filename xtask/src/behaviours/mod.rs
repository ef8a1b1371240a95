//! `docs/behaviours.md` and the tables beside it say which test shows which rule. A table like that rots the first time a test is
//! renamed or a rule is forgotten, so this chore reads it and believes nothing: every test named must run, every decision linked
//! must exist, whatever waits must say for which work, and no rule may be missing or told twice.

mod evidence;
mod series;
mod sources;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use e2e::workspace::root;
use evidence::Evidence;
use sources::Sources;
use tables::Rule;

/// How a rule stands. A rule of which a part is still to be built waits, whatever else is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Shown,
    Decided,
    Waiting,
}

/// How many rules of an area stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    shown: usize,
    decided: usize,
    waiting: usize,
}

impl Count {
    fn add(&mut self, standing: Standing) {
        match standing {
            Standing::Shown => self.shown += 1,
            Standing::Decided => self.decided += 1,
            Standing::Waiting => self.waiting += 1,
        }
    }
}

/// Fails when the tables claim anything that is not so.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn check() -> anyhow::Result<()> {
    let docs = root().join("docs");
    let rules = rules_under(&docs)?;
    let sources = Sources::of(&root())?;
    let mut complaints = series::complaints(rules.iter().map(|rule| rule.id.as_str()));
    let mut areas: Vec<(&str, Count)> = Vec::new();
    let mut tests = BTreeMap::new();
    for rule in &rules {
        let evidence = match evidence::read(&rule.shown_by) {
            Ok(evidence) => evidence,
            Err(why) => {
                complaints.push(format!("{rule}: {why}"));
                continue;
            }
        };
        complaints
            .extend(evidence.iter().filter_map(|piece| fault(piece, &sources, rule)).map(|w| format!("{rule}: {w}")));
        for piece in &evidence {
            if let Evidence::Test(name) = piece {
                *tests.entry(name.clone()).or_insert(0_usize) += 1;
            }
        }
        let standing = standing(&evidence);
        let at = areas.iter().position(|(area, _)| *area == rule.area).unwrap_or_else(|| {
            areas.push((&rule.area, Count::default()));
            areas.len() - 1
        });
        if let Some((_, count)) = areas.get_mut(at) {
            count.add(standing);
        }
    }
    if !complaints.is_empty() {
        bail!("docs/behaviours does not hold:\n  {}", complaints.join("\n  "));
    }
    print!("{}", report(&areas));
    println!("behaviours: {} rules, {} tests named, all of them run", rules.len(), tests.len());
    Ok(())
}

/// The tables of the index and of every page beside it, in the order of their names.
fn rules_under(docs: &Path) -> anyhow::Result<Vec<Rule>> {
    let mut pages: Vec<PathBuf> = vec![docs.join("behaviours.md")];
    let folder = docs.join("behaviours");
    let mut beside = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "md") {
            beside.push(path);
        }
    }
    beside.sort_unstable();
    pages.extend(beside);
    let mut rules = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).with_context(|| format!("failed to read {}", page.display()))?;
        rules.extend(tables::read(&page, &text).with_context(|| format!("failed to read {}", page.display()))?);
    }
    Ok(rules)
}

fn fault(piece: &Evidence, sources: &Sources, rule: &Rule) -> Option<String> {
    match piece {
        Evidence::Test(name) => sources.fault_of_test(name),
        Evidence::Chore(command) => sources.fault_of_chore(command),
        Evidence::Decision(link) => {
            let file = rule.page.parent().unwrap_or(Path::new(".")).join(link);
            (!file.is_file()).then(|| format!("the decision {link} does not exist"))
        }
        Evidence::WaitsFor(_) => None,
    }
}

fn standing(evidence: &[Evidence]) -> Standing {
    if evidence.iter().any(|piece| matches!(piece, Evidence::WaitsFor(_))) {
        Standing::Waiting
    } else if evidence.iter().any(|piece| matches!(piece, Evidence::Test(_) | Evidence::Chore(_))) {
        Standing::Shown
    } else {
        Standing::Decided
    }
}

fn report(areas: &[(&str, Count)]) -> String {
    let mut all = Count::default();
    let mut text = format!("{:<52}{:>7}{:>9}{:>9}\n", "area", "shown", "decided", "waiting");
    let line =
        |area: &str, count: Count| format!("{area:<52}{:>7}{:>9}{:>9}\n", count.shown, count.decided, count.waiting);
    for (area, count) in areas {
        text.push_str(&line(area, *count));
        all.shown += count.shown;
        all.decided += count.decided;
        all.waiting += count.waiting;
    }
    text.push_str(&line("all", all));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_part_waits_even_if_a_test_shows_the_rest() {
        let test = Evidence::Test("a_test".into());
        let decision = Evidence::Decision("adr/0001-x.md".into());
        let waits = Evidence::WaitsFor("drain".into());
        assert_eq!(standing(&[test.clone(), waits]), Standing::Waiting);
        assert_eq!(standing(&[decision.clone(), test]), Standing::Shown);
        assert_eq!(standing(&[decision]), Standing::Decided);
    }

    #[test]
    fn the_report_counts_each_area_and_all_of_them() {
        let one = Count { shown: 2, decided: 0, waiting: 1 };
        let other = Count { shown: 1, decided: 1, waiting: 0 };
        let lines: Vec<Vec<String>> = report(&[("one", one), ("the other", other)])
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().rev().take(3).map(str::to_owned).collect())
            .collect();
        assert_eq!(lines, [["1", "0", "2"], ["0", "1", "1"], ["1", "1", "3"]]);
    }
}
