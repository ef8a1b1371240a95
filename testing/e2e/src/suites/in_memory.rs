//! Suites on the fake API server: ordinary tests with virtual time.

use anyhow::Context;
use serde_json::json;

use super::tally::{Tally, file_of};
use crate::workspace::cargo_output;

/// Runs the tests of a package with these arguments, and counts them like the cases of a suite.
#[allow(clippy::print_stdout, reason = "a chore talks to the person who called it")]
pub(crate) fn run(package: &str, suite: &str, picked: &[&str]) -> anyhow::Result<Tally> {
    let line = [&["test", "--package", package, "--no-fail-fast", "--"], picked].concat();
    let said = cargo_output(&line)?;
    let tally = count(&said);
    let Tally { passed, failed, skipped } = tally;
    let summary = json!({ "suite": suite, "passed": passed, "failed": failed, "skipped": skipped });
    let path = file_of(suite)?;
    std::fs::write(&path, format!("{summary:#}\n")).with_context(|| format!("failed to write {}", path.display()))?;
    println!("{tally}");
    Ok(tally)
}

/// Returns the sum over all test programs, each of which prints a last line `test result: ok. 12 passed; 0 failed; 0
/// ignored; 0 measured; 0 filtered out; finished in 0.42s`.
fn count(said: &str) -> Tally {
    let mut tally = Tally::default();
    for line in said.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |word: &str| -> u64 {
            let before = line.split(word).next().unwrap_or_default();
            before.rsplit([' ', '.']).find(|part| !part.is_empty()).and_then(|part| part.parse().ok()).unwrap_or(0)
        };
        tally.passed += number(" passed");
        tally.failed += number(" failed");
        tally.skipped += number(" ignored");
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_of_all_test_programs_are_counted() {
        let line = |result: &str| format!("test result: {result}; 0 measured; 0 filtered out; finished in 0.42s\n");
        let said = format!(
            "running 3 tests\n{}\nDoc-tests\n{}",
            line("ok. 12 passed; 0 failed; 1 ignored"),
            line("FAILED. 1 passed; 3 failed; 0 ignored")
        );
        assert_eq!(count(&said), Tally { passed: 13, failed: 3, skipped: 1 });
    }
}
