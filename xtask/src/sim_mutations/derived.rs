//! Mistakes that are derived from the sources of the planners, as `cargo mutants` derives them.
//!
//! The mistakes of [`super::list`] were written by people who knew the invariants. These were not: a condition is negated, a part of a
//! conjunction is dropped, a comparison is shifted, a statement is left out, or a function returns at once. Each change stays on its
//! line, so that an error of the compiler names it, and each line has one change at most.

/// One change of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Derived {
    /// Where, relative to the root of the workspace.
    pub(super) file: String,
    /// Which line, from one.
    pub(super) line: usize,
    /// What is changed.
    pub(super) what: &'static str,
    /// What stands there instead; `{on}` is whether the mistake is made.
    pub(super) text: String,
}

/// The changes of one line: what is changed, and what stands there instead.
type Changes = Vec<(&'static str, String)>;

/// All changes of a file. Tests are left out.
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
    changes.extend(statement(line).map(|text| ("statement left out", text)));
    changes.extend(returned(line).into_iter().map(|text| ("returns at once", text)));
    changes
}

/// The condition of an `if` or of an arm of a match, and what stands around it.
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
        changes.push(("part of a condition dropped", around(kept.join(" && "))));
    }
    changes
}

/// The parts of a conjunction; one if it is none, or if it has alternatives.
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

/// A call whose result nobody uses.
fn statement(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    let indent = line.get(..line.len() - trimmed.len())?;
    let head = trimmed.split('(').next()?;
    let is_path = !head.is_empty() && head.chars().all(|letter| letter.is_alphanumeric() || "_.:".contains(letter));
    let is_call = trimmed.ends_with(");") && trimmed.contains('(') && is_balanced(trimmed);
    let is_chain = head.starts_with('.');
    (is_path && is_call && !is_chain).then(|| format!("{indent}if !{{on}} {{ {trimmed} }}"))
}

/// A function on one line that returns at once.
fn returned(line: &str) -> Vec<String> {
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

/// So many of them, spread over all files, and no two of one line.
pub(super) fn sample(mut all: Vec<Derived>, most: usize) -> Vec<Derived> {
    // The order does not follow from the places, and is the same each time.
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

/// FNV-1a: the same in each version of Rust.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The source with these mistakes, each behind its number.
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

/// The lines that the compiler complains of, as `file:line:column: error` says them.
pub(super) fn refused(output: &str) -> Vec<(String, usize)> {
    let place = |line: &str| {
        let (place, _) = line.split_once(": error")?;
        let mut parts = place.split(':');
        Some((parts.next()?.to_owned(), parts.next()?.parse().ok()?))
    };
    output.lines().filter_map(place).collect()
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
    fn statement_is_left_out_and_function_returns_at_once() {
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
    fn compiler_names_the_lines_that_it_refuses() {
        let output = "crates/planner/src/a.rs:12:5: error[E0308]: mismatched types\ncrates/planner/src/a.rs:13:5: warning: unused\n";
        assert_eq!(refused(output), [("crates/planner/src/a.rs".to_owned(), 12)]);
    }
}
