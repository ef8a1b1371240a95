//! Derives mistakes from the sources of the planners, as `cargo mutants` does.
//!
//! The authors of the mistakes in [`super::list`] knew the invariants. The derived mistakes are independent of them: a
//! condition is negated, a part of a conjunction is removed, a comparison is shifted, a statement is removed, or a
//! function returns immediately. Each change stays on its line, so that a compiler error names it. Each line has at
//! most one change.

/// A change of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Derived {
    /// Path relative to the root of the workspace.
    pub(super) file: String,
    /// Line number, from one.
    pub(super) line: usize,
    /// Kind of change.
    pub(super) what: &'static str,
    /// The new line; `{on}` stands for whether the mistake is active.
    pub(super) text: String,
}

/// The changes of one line: kind and new line.
type Changes = Vec<(&'static str, String)>;

/// Returns all changes of a file, without its tests.
pub(super) fn derive(file: &str, source: &str) -> Vec<Derived> {
    let code = source.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    let at = |(number, line): (usize, &str)| {
        let changes = changes(line).into_iter();
        changes.map(move |(what, text)| (number + 1, what, text)).collect::<Vec<_>>()
    };
    let all = code.enumerate().flat_map(at);
    all.map(|(line, what, text)| Derived { file: file.to_owned(), line, what, text }).collect()
}

fn changes(line: &str) -> Changes {
    if line.trim_start().starts_with("//") || line.contains("const fn") || line.contains('#') {
        return Changes::new();
    }
    let of_condition = condition(line).map(|(before, condition, after)| conditions(before, condition, after));
    let mut changes = of_condition.unwrap_or_default();
    changes.extend(statement(line).map(|text| ("statement removed", text)));
    changes.extend(early_returns(line).into_iter().map(|text| ("immediate return", text)));
    changes
}

/// Returns the condition of an `if` or of a match arm, and the text before and after it.
fn condition(line: &str) -> Option<(&str, &str, &str)> {
    let begin = line
        .find("if ")
        .filter(|at| line.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(' ')))?
        + 3;
    let (before, rest) = line.split_at_checked(begin)?;
    let end = match rest.find(" => ") {
        Some(end) => end,
        None => rest.strip_suffix(" {")?.len(),
    };
    let (condition, after) = rest.split_at_checked(end)?;
    let is_plain = !condition.contains("let ") && !condition.contains('{') && is_balanced(condition);
    is_plain.then_some((before, condition, after))
}

fn conditions(before: &str, condition: &str, after: &str) -> Changes {
    let around = |text: String| format!("{before}{text}{after}");
    let mut changes = vec![("condition negated", around(format!("(({condition}) != {{on}})")))];
    for (from, to) in [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > ")] {
        if condition.matches(from).count() == 1 && !condition.contains("::<") {
            let shifted = condition.replace(from, to);
            changes.push(("comparison shifted", around(format!("(if {{on}} {{ {shifted} }} else {{ {condition} }})"))));
        }
    }
    let parts = parts(condition);
    for dropped in 0..parts.len().max(1) {
        if parts.len() < 2 {
            break;
        }
        let part = |(number, part): (usize, &&str)| {
            if number == dropped { format!("({part} || {{on}})") } else { format!("({part})") }
        };
        let kept: Vec<String> = parts.iter().enumerate().map(part).collect();
        changes.push(("part of a condition removed", around(kept.join(" && "))));
    }
    changes
}

/// Returns the parts of a conjunction. Other conditions are one part.
fn parts(condition: &str) -> Vec<&str> {
    if condition.contains(" || ") {
        return vec![condition];
    }
    let parts: Vec<&str> = condition.split(" && ").collect();
    if parts.iter().all(|part| is_balanced(part)) { parts } else { vec![condition] }
}

fn is_balanced(text: &str) -> bool {
    [('(', ')'), ('[', ']'), ('{', '}')].iter().all(|(open, close)| {
        let count = |which: char| text.chars().filter(|letter| *letter == which).count();
        count(*open) == count(*close)
    })
}

/// Returns the line with a call whose result is not used, behind a condition.
fn statement(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    let indent = line.get(..line.len() - trimmed.len())?;
    let head = trimmed.split('(').next()?;
    let is_path = !head.is_empty() && head.chars().all(|letter| letter.is_alphanumeric() || "_.:".contains(letter));
    let is_call = trimmed.ends_with(");") && trimmed.contains('(') && is_balanced(trimmed);
    let is_chain = head.starts_with('.');
    (is_path && is_call && !is_chain).then(|| format!("{indent}if !{{on}} {{ {trimmed} }}"))
}

/// Returns the heads of a function with an immediate return.
fn early_returns(line: &str) -> Vec<String> {
    let Some((head, kind)) = line.strip_suffix(" {").and_then(|head| head.split_once(") -> ")) else {
        return Vec::new();
    };
    if !head.contains("fn ") {
        return Vec::new();
    }
    let values: &[&str] = match kind {
        "bool" => &["true", "false"],
        "i32" | "i64" | "u8" | "u32" | "u64" | "usize" => &["0", "1"],
        kind if kind.starts_with("Option<") => &["None"],
        kind if kind.starts_with("Vec<") => &["Vec::new()"],
        _ => &[],
    };
    values.iter().map(|value| format!("{line} if {{on}} {{ return {value}; }}")).collect()
}

/// Selects `most` of the changes, spread over all files, at most one per line.
pub(super) fn sample(mut all: Vec<Derived>, most: usize) -> Vec<Derived> {
    // The order is independent of the position, and the same in each run.
    all.sort_by_key(|derived| (digest(&format!("{}{}{}", derived.file, derived.line, derived.text)), derived.line));
    let mut chosen: Vec<Derived> = Vec::new();
    for derived in all {
        let is_new = !chosen.iter().any(|other| (&other.file, other.line) == (&derived.file, derived.line));
        if is_new && chosen.len() < most {
            chosen.push(derived);
        }
    }
    chosen
}

/// FNV-1a, which is the same in every version of Rust.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the source with these mistakes, each with its number.
pub(super) fn mutated(source: &str, numbered: &[(usize, &Derived)]) -> String {
    let line = |(number, line): (usize, &str)| {
        let change = numbered.iter().find(|(_, derived)| derived.line == number + 1);
        change.map_or_else(
            || line.to_owned(),
            |(choice, derived)| derived.text.replace("{on}", &format!("crate::sim_mutant::on({choice})")),
        )
    };
    source.lines().enumerate().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Returns the lines that the compiler rejects, from messages of the form `file:line:column: error`.
pub(super) fn rejected_lines(output: &str) -> Vec<(String, usize)> {
    let position = |line: &str| {
        let (position, _) = line.split_once(": error")?;
        let mut parts = position.split(':');
        Some((parts.next()?.to_owned(), parts.next()?.parse().ok()?))
    };
    output.lines().filter_map(position).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        changes(line).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn condition_is_negated_shifted_and_loses_its_parts() {
        assert_eq!(
            texts("    if a < b && c {"),
            [
                "    if ((a < b && c) != {on}) {",
                "    if (if {on} { a <= b && c } else { a < b && c }) {",
                "    if (a < b || {on}) && (c) {",
                "    if (a < b) && (c || {on}) {",
            ]
        );
        assert_eq!(
            texts("        Some(x) if x.ready() => Plan::none(),"),
            ["        Some(x) if ((x.ready()) != {on}) => Plan::none(),"]
        );
        assert!(texts("    if let Some(x) = y {").is_empty());
        assert!(texts("    // if a {").is_empty());
    }

    #[test]
    fn statement_is_removed_and_function_returns_immediately() {
        assert_eq!(texts("    builder.step(Step::Watch);"), ["    if !{on} { builder.step(Step::Watch); }"]);
        assert!(texts("    let x = f();").is_empty());
        assert!(texts("        .map(f);").is_empty());
        assert_eq!(
            texts("fn is_ready(a: u8) -> bool {"),
            [
                "fn is_ready(a: u8) -> bool { if {on} { return true; }",
                "fn is_ready(a: u8) -> bool { if {on} { return false; }",
            ]
        );
    }

    #[test]
    fn tests_are_not_changed_and_a_line_is_changed_once() {
        let source = "fn f() {\n    g();\n}\n#[cfg(test)]\nmod tests {\n    g();\n}\n";
        let all = derive("a.rs", source);
        assert_eq!(all.iter().map(|derived| derived.line).collect::<Vec<_>>(), [2]);
        let twice = derive("a.rs", "    if a < b {\n");
        assert_eq!(sample(twice, 10).len(), 1);
        let text = mutated(source, &[(7, &all[0])]);
        assert_eq!(text.lines().nth(1), Some("    if !crate::sim_mutant::on(7) { g(); }"));
        assert_eq!(text.lines().count(), source.lines().count());
    }

    #[test]
    fn rejected_lines_are_read_from_compiler_output() {
        let output = "crates/planner/src/a.rs:12:5: error[E0308]: mismatched types\ncrates/planner/src/a.rs:13:5: warning: unused\n";
        assert_eq!(rejected_lines(output), [("crates/planner/src/a.rs".to_owned(), 12)]);
    }
}
