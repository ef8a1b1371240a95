//! How it was taken that something is not allowed.
//!
//! Under somebody else's roles a verb may be missing. Then it is asked for once or so, something else is done instead, and each
//! process says so: once, because a line for every change would bury the log, and at least once, because nobody would grant the
//! verb otherwise.

use std::collections::BTreeMap;

use super::programs::Said;
use super::role_report::Denial;

/// A refusal for each kind is how we learn of a missing verb; all workers may learn at the same time, and the API server forgets
/// nothing that was under way.
const REFUSALS: usize = 40;

/// What is wrong with that, if anything is. `expected` is what these roles lack, as `verb resource`; `identities` are those of
/// the manager and the machine controller, or of a process that is both.
pub(super) fn complaint(
    denied: &BTreeMap<Denial, usize>,
    expected: &[&str],
    identities: &[String],
    said: &[Said],
) -> Option<String> {
    let unexpected = denied.iter().find_map(|(denial, times)| {
        let what = format!("{} {}", denial.verb, denial.resource);
        if !expected.contains(&what.as_str()) {
            return Some(format!("{denial} was denied, and nobody thought it would be"));
        }
        (*times > REFUSALS).then(|| format!("{denial} was tried {times} times, though it was denied"))
    });
    let unsaid = || {
        denied.keys().find_map(|denial| {
            let words = words(denial);
            let is_told = by(&denial.who, identities, said).any(|said| said.text.contains(&words));
            (!is_told).then(|| format!("{denial} was denied, and nobody said {words:?}"))
        })
    };
    unexpected.or_else(unsaid).or_else(|| said.iter().find_map(repeated))
}

/// What is said of a missing verb.
fn words(denial: &Denial) -> String {
    match (denial.resource.as_str(), denial.namespace.as_str()) {
        ("events", _) => "may not write Events;".to_owned(),
        (resource, "") => format!("may not {} {resource};", denial.verb),
        (resource, namespace) => format!("may not {} {resource} in namespace {namespace};", denial.verb),
    }
}

/// What those said who have this identity.
fn by<'a>(who: &str, identities: &[String], said: &'a [Said]) -> impl Iterator<Item = &'a Said> {
    let command = match identities {
        [manager, _] if manager == who => "manager",
        [_, _] => "machine-controller",
        _ => "run",
    };
    said.iter().filter(move |said| said.command == command)
}

fn repeated(said: &Said) -> Option<String> {
    let lines = said.text.lines();
    let mut lacks: Vec<&str> = lines.filter_map(|line| line.find("may n").and_then(|at| line.get(at..))).collect();
    lacks.sort_unstable();
    let twice = lacks.windows(2).find(|pair| pair.first() == pair.last());
    twice.and_then(<[&str]>::first).map(|line| format!("{} said more than once: {line}", said.command))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "WARN may not patch machines in namespace cut; each change now reads the object";

    fn denied(verb: &str, resource: &str, namespace: &str, times: usize) -> BTreeMap<Denial, usize> {
        let [who, verb, resource, namespace] = ["m", verb, resource, namespace].map(str::to_owned);
        BTreeMap::from([(Denial { who, verb, resource, namespace }, times)])
    }

    fn complaint_about(denied: &BTreeMap<Denial, usize>, manager: &str) -> String {
        let said = |command: &str, text: &str| Said { command: command.to_owned(), text: text.to_owned() };
        let said = [said("manager", manager), said("machine-controller", PATCH)];
        let identities = ["m", "c"].map(str::to_owned);
        complaint(denied, &["patch machines", "patch nodes", "create events"], &identities, &said).unwrap_or_default()
    }

    #[test]
    fn what_was_expected_and_said_once_is_no_cause_for_complaint() {
        let cases = [
            (denied("patch", "machines", "cut", 3), PATCH),
            (denied("patch", "nodes", "", 1), "WARN may not patch nodes; each change"),
            (
                denied("create", "events", "default", 1),
                "WARN may not write Events; they are dropped until that changes",
            ),
        ];
        for (denied, log) in cases {
            assert_eq!(complaint_about(&denied, log), "", "{denied:?}");
        }
    }

    /// Shows ROL-2.
    #[test]
    fn what_came_unexpected_too_often_without_a_word_or_with_too_many_is_one() {
        let twice = format!("12:00 {PATCH}\n12:01 {PATCH}");
        let cases = [
            (denied("delete", "machines", "cut", 1), PATCH, "nobody thought it would be"),
            (denied("patch", "machines", "cut", 41), PATCH, "was tried 41 times"),
            (
                denied("patch", "machines", "cut", 1),
                "INFO well",
                "nobody said \"may not patch machines in namespace cut;\"",
            ),
            (denied("patch", "machines", "other", 1), PATCH, "nobody said"),
            (BTreeMap::new(), &twice, "manager said more than once: may not patch machines"),
        ];
        for (denied, log, expected) in cases {
            let complaint = complaint_about(&denied, log);
            assert!(complaint.contains(expected), "{complaint}");
        }
    }
}
