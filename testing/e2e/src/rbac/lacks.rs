//! Checks how the programs handle missing permissions.
//!
//! Under the roles of MCM a verb may be missing. Then the programs try it a limited number of times, use an
//! alternative, and log the missing permission once per process.

use std::collections::BTreeMap;

use super::programs::Said;
use super::role_report::Denial;

/// Maximum number of denied requests per verb and kind. All workers may learn of a missing permission at the same time.
const MAX_DENIALS: usize = 40;

/// Returns the error, if there is one. `expected` is what these roles lack, as `verb resource`; `identities` are those
/// of the manager and the machine controller, or of a process that is both.
pub(super) fn complaint(
    denied: &BTreeMap<Denial, usize>,
    expected: &[&str],
    identities: &[String],
    said: &[Said],
) -> Option<String> {
    let unexpected = denied.iter().find_map(|(denial, times)| {
        let what = format!("{} {}", denial.verb, denial.resource);
        if !expected.contains(&what.as_str()) {
            return Some(format!("{denial} was denied unexpectedly"));
        }
        (*times > MAX_DENIALS).then(|| format!("{denial} was denied {times} times"))
    });
    let unsaid = || {
        denied.keys().find_map(|denial| {
            let words = words(denial);
            let is_told = by(&denial.who, identities, said).any(|said| said.text.contains(&words));
            (!is_told).then(|| format!("{denial} was denied, and no log contains {words:?}"))
        })
    };
    unexpected.or_else(unsaid).or_else(|| said.iter().find_map(repeated))
}

/// Returns the log text for a missing permission.
fn words(denial: &Denial) -> String {
    match (denial.resource.as_str(), denial.namespace.as_str()) {
        ("events", _) => "no permission to write Events;".to_owned(),
        (resource, "") => format!("may not {} {resource};", denial.verb),
        (resource, namespace) => format!("may not {} {resource} in namespace {namespace};", denial.verb),
    }
}

/// Returns the logs of the process with this identity.
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
    let mut lacks: Vec<&str> = lines
        .filter_map(|line| line.find("may n").or_else(|| line.find("no permission to")).and_then(|at| line.get(at..)))
        .collect();
    lacks.sort_unstable();
    let twice = lacks.windows(2).find(|pair| pair.first() == pair.last());
    twice.and_then(<[&str]>::first).map(|line| format!("{} logged more than once: {line}", said.command))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "WARN may not patch machines in namespace cut; using get and update instead";

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
    fn expected_denials_that_are_logged_once_are_accepted() {
        let cases = [
            (denied("patch", "machines", "cut", 3), PATCH),
            (denied("patch", "nodes", "", 1), "WARN may not patch nodes; using get"),
            (denied("create", "events", "default", 1), "WARN no permission to write Events; dropping them"),
        ];
        for (denied, log) in cases {
            assert_eq!(complaint_about(&denied, log), "", "{denied:?}");
        }
    }

    /// Shows ROL-2.
    #[test]
    fn unexpected_repeated_or_unlogged_denials_are_errors() {
        let twice = format!("12:00 {PATCH}\n12:01 {PATCH}");
        let cases = [
            (denied("delete", "machines", "cut", 1), PATCH, "was denied unexpectedly"),
            (denied("patch", "machines", "cut", 41), PATCH, "was denied 41 times"),
            (
                denied("patch", "machines", "cut", 1),
                "INFO well",
                "no log contains \"may not patch machines in namespace cut;\"",
            ),
            (denied("patch", "machines", "other", 1), PATCH, "no log contains"),
            (BTreeMap::new(), &twice, "manager logged more than once: may not patch machines"),
        ];
        for (denied, log, expected) in cases {
            let complaint = complaint_about(&denied, log);
            assert!(complaint.contains(expected), "{complaint}");
        }
    }
}
