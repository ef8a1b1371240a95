//! What the last column of a rule may say.

/// Work that is still to come, by name.
const TO_COME: &[&str] = &["machine controller", "drain", "sets and deployments", "servers", "api servers"];

/// One piece of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// A back-quoted test, or a case of a suite that a test runs. `crate::name` where several crates have one of that name.
    Test(String),
    /// A back-quoted command that CI runs.
    Chore(String),
    /// A link to a page under `adr/`.
    Decision(String),
    /// `waits for:` and the work that will bring it.
    WaitsFor(String),
}

/// The pieces of a cell, at least one, in the order in which they stand there. Words between them are for people.
pub(super) fn read(cell: &str) -> Result<Vec<Evidence>, String> {
    let mut found = Vec::new();
    for quoted in cell.split('`').skip(1).step_by(2) {
        found.push(if quoted.starts_with("cargo ") {
            Evidence::Chore(quoted.to_owned())
        } else if is_name(quoted) {
            Evidence::Test(quoted.to_owned())
        } else {
            return Err(format!("`{quoted}` is neither the name of a test nor a command of CI"));
        });
    }
    for link in cell.split("](").skip(1) {
        let target = link.split(')').next().unwrap_or_default();
        if !is_decision(target) {
            return Err(format!("{target:?} is no decision: link to adr/NNNN-title.md"));
        }
        found.push(Evidence::Decision(target.to_owned()));
    }
    for rest in cell.split("waits for:").skip(1) {
        let work = rest.split([';', '`', '[']).next().unwrap_or_default().trim().trim_end_matches(',');
        if !TO_COME.contains(&work) {
            return Err(format!("nothing called {work:?} is to come; there are {}", TO_COME.join(", ")));
        }
        found.push(Evidence::WaitsFor(work.to_owned()));
    }
    if found.is_empty() {
        return Err("nothing shows it: name a test, link to a decision, or say `waits for: <work>`".to_owned());
    }
    Ok(found)
}

fn is_name(text: &str) -> bool {
    text.contains('_') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | ':'))
}

/// `adr/0001-title.md`, from wherever the page is.
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
    fn tests_chores_decisions_and_waiting_are_told_apart() {
        let cell = "`plan::one_vm_only`, `cargo xtask purity`, [0002](../adr/0002-lean-views.md); waits for: drain";
        assert_eq!(
            read(cell).unwrap(),
            [
                Evidence::Test("plan::one_vm_only".into()),
                Evidence::Chore("cargo xtask purity".into()),
                Evidence::Decision("../adr/0002-lean-views.md".into()),
                Evidence::WaitsFor("drain".into()),
            ]
        );
    }

    #[test]
    fn a_rule_may_wait_for_two_things() {
        let both = read("waits for: drain; waits for: sets and deployments").unwrap();
        assert_eq!(both, [Evidence::WaitsFor("drain".into()), Evidence::WaitsFor("sets and deployments".into())]);
    }

    #[test]
    fn nothing_a_wish_and_a_stray_link_are_no_evidence() {
        for cell in ["", "trust us", "waits for: better times", "`Nonsense`", "[x](elsewhere.md)", "[x](adr/one.md)"] {
            assert!(read(cell).is_err(), "{cell:?} passed");
        }
    }
}
