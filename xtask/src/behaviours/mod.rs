//! Checks the rules of `docs/contributing/behaviours.md` against the tests that show them.
//!
//! A test names the rules that it shows in a comment (`/// Shows MC-H1.`). The chore fails if a comment names an unknown rule or
//! stands on a function that is not a test that runs, if a rule has no test and no other evidence, if a linked ADR does not exist,
//! or if a rule is missing or listed twice.

mod evidence;
mod series;
mod sources;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use e2e::workspace::root;
use evidence::Evidence;
use sources::{Kind, Sources, Tag};
use tables::Rule;

/// What shows a rule. A rule of which a part is not implemented is pending, whatever else shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coverage {
    Tested,
    Decided,
    Pending,
}

/// The number of rules of an area by coverage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    tested: usize,
    decided: usize,
    pending: usize,
}

impl Count {
    fn add(&mut self, coverage: Coverage) {
        match coverage {
            Coverage::Tested => self.tested += 1,
            Coverage::Decided => self.decided += 1,
            Coverage::Pending => self.pending += 1,
        }
    }
}

/// Checks all rules and prints the number of rules per area.
#[allow(clippy::print_stdout, reason = "the report is the output of the chore")]
pub(crate) fn check() -> anyhow::Result<()> {
    let rules = rules_under(&root().join("docs/contributing"))?;
    let sources = Sources::of(&root())?;
    let mut faults = series::complaints(rules.iter().map(|rule| rule.id.as_str()));
    faults.extend(faults_of_tags(&rules, &sources.tags));
    let tested: BTreeSet<&str> = sources.tags.iter().flat_map(|tag| &tag.rules).map(String::as_str).collect();
    let mut areas: Vec<(&str, Count)> = Vec::new();
    for rule in &rules {
        let evidence = match evidence::read(&rule.shown_by) {
            Ok(evidence) => evidence,
            Err(why) => {
                faults.push(format!("{rule}: {why}"));
                continue;
            }
        };
        faults.extend(
            evidence.iter().filter_map(|entry| fault(entry, &sources, rule)).map(|why| format!("{rule}: {why}")),
        );
        let Some(coverage) = coverage(tested.contains(rule.id.as_str()), &evidence) else {
            faults.push(format!(
                "{rule}: no test shows it; add `/// Shows {}.` above a test, or link an ADR, or write `waits for: WORK`",
                rule.id
            ));
            continue;
        };
        let at = areas.iter().position(|(area, _)| *area == rule.area).unwrap_or_else(|| {
            areas.push((&rule.area, Count::default()));
            areas.len() - 1
        });
        if let Some((_, count)) = areas.get_mut(at) {
            count.add(coverage);
        }
    }
    if !faults.is_empty() {
        bail!("the rules and their tests do not agree:\n  {}", faults.join("\n  "));
    }
    print!("{}", report(&areas));
    println!("behaviours: {} rules, {} tests name them, all of these tests run", rules.len(), sources.tags.len());
    Ok(())
}

/// Returns the comments that name an unknown rule or stand on a function that is not a test that runs.
fn faults_of_tags(rules: &[Rule], tags: &[Tag]) -> Vec<String> {
    let known: BTreeSet<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let mut faults = Vec::new();
    for tag in tags {
        let Tag { function, file, .. } = tag;
        match tag.kind {
            Kind::Test => {}
            Kind::IgnoredTest => faults.push(format!("{file}: `{function}` is ignored, so it shows no rule")),
            Kind::Function => faults.push(format!("{file}: `{function}` is not a test, so it shows no rule")),
        }
        let unknown = tag.rules.iter().filter(|id| !known.contains(id.as_str()));
        faults.extend(unknown.map(|id| format!("{file}: `{function}` names the rule {id}, which does not exist")));
    }
    faults
}

/// Reads the tables of the index and of the pages beside it, in the order of the pages' names.
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

fn fault(entry: &Evidence, sources: &Sources, rule: &Rule) -> Option<String> {
    match entry {
        Evidence::Chore(command) => sources.fault_of_chore(command),
        Evidence::Decision(link) => {
            let file = rule.page.parent().unwrap_or(Path::new(".")).join(link);
            (!file.is_file()).then(|| format!("the ADR {link} does not exist"))
        }
        Evidence::WaitsFor(_) => None,
    }
}

/// Returns what shows a rule; `None` if nothing does.
fn coverage(is_tested: bool, evidence: &[Evidence]) -> Option<Coverage> {
    let has = |wanted: fn(&Evidence) -> bool| evidence.iter().any(wanted);
    if has(|entry| matches!(entry, Evidence::WaitsFor(_))) {
        Some(Coverage::Pending)
    } else if is_tested || has(|entry| matches!(entry, Evidence::Chore(_))) {
        Some(Coverage::Tested)
    } else {
        (!evidence.is_empty()).then_some(Coverage::Decided)
    }
}

fn report(areas: &[(&str, Count)]) -> String {
    let mut all = Count::default();
    let mut text = format!("{:<52}{:>7}{:>9}{:>9}\n", "area", "tested", "decided", "pending");
    let line =
        |area: &str, count: Count| format!("{area:<52}{:>7}{:>9}{:>9}\n", count.tested, count.decided, count.pending);
    for (area, count) in areas {
        text.push_str(&line(area, *count));
        all.tested += count.tested;
        all.decided += count.decided;
        all.pending += count.pending;
    }
    text.push_str(&line("all", all));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_is_pending_when_a_part_waits_even_if_it_is_tested() {
        let decision = Evidence::Decision("adr/0001-x.md".into());
        let waits = Evidence::WaitsFor("drain".into());
        assert_eq!(coverage(true, &[waits]), Some(Coverage::Pending));
        assert_eq!(coverage(true, std::slice::from_ref(&decision)), Some(Coverage::Tested));
        assert_eq!(coverage(false, &[decision]), Some(Coverage::Decided));
        assert_eq!(coverage(false, &[]), None);
    }

    #[test]
    fn comment_is_reported_when_its_rule_or_its_test_is_missing() {
        let tag = |rule: &str, kind| Tag { rules: vec![rule.into()], function: "f".into(), file: "a.rs".into(), kind };
        let rules = tables::read(
            Path::new("docs/x.md"),
            "# A\n| id | what | how | also shown by |\n|---|---|---|---|\n| A-1 | does | kept | |\n",
        );
        let rules = rules.unwrap();
        let faults =
            faults_of_tags(&rules, &[tag("A-1", Kind::Test), tag("A-2", Kind::Test), tag("A-1", Kind::Function)]);
        assert_eq!(
            faults,
            ["a.rs: `f` names the rule A-2, which does not exist", "a.rs: `f` is not a test, so it shows no rule"]
        );
    }

    #[test]
    fn report_counts_each_area_and_all_areas() {
        let one = Count { tested: 2, decided: 0, pending: 1 };
        let other = Count { tested: 1, decided: 1, pending: 0 };
        let lines: Vec<Vec<String>> = report(&[("one", one), ("the other", other)])
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().rev().take(3).map(str::to_owned).collect())
            .collect();
        assert_eq!(lines, [["1", "0", "2"], ["0", "1", "1"], ["1", "1", "3"]]);
    }
}
