//! Pages from constants and their doc comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::ensure;

use super::{cell, generated};

/// The constants of a source file.
#[derive(Debug, Default)]
pub(super) struct File {
    doc: String,
    modules: Vec<Module>,
    /// The values of all constants, by name.
    values: BTreeMap<String, String>,
}

/// A module of constants; the file itself is the first.
#[derive(Debug, Default)]
struct Module {
    doc: String,
    constants: Vec<Constant>,
}

#[derive(Debug)]
struct Constant {
    values: Vec<String>,
    doc: String,
    /// Whether a blank line or the beginning of the module is above.
    begins: bool,
}

/// Reads the constants of a source file up to its tests.
pub(super) fn parse(source: &str) -> File {
    let mut file = File { modules: vec![Module::default()], ..File::default() };
    let (mut doc, mut begins) = (String::new(), true);
    let mut lines = source.lines().map(str::trim).take_while(|line| *line != "#[cfg(test)]");
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("//!") {
            append(&mut file.doc, text);
        } else if let Some(text) = line.strip_prefix("///") {
            append(&mut doc, text);
        } else if line.starts_with("pub mod ") && line.ends_with('{') {
            file.modules.push(Module { doc: std::mem::take(&mut doc), constants: Vec::new() });
            begins = true;
        } else if let Some(declared) = line.strip_prefix("pub const ") {
            let mut declared = declared.to_owned();
            while !declared.ends_with(';') {
                let Some(next) = lines.next() else { break };
                append(&mut declared, next);
            }
            let name = declared.split(':').next().unwrap_or_default().to_owned();
            let values: Vec<String> = declared.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            if let [value] = values.as_slice() {
                file.values.insert(name, value.clone());
            }
            let constant = Constant { values, doc: std::mem::take(&mut doc), begins };
            if let Some(module) = file.modules.last_mut().filter(|_| !constant.values.is_empty()) {
                module.constants.push(constant);
            }
            begins = false;
        } else {
            doc.clear();
            begins = begins || line.is_empty();
        }
    }
    file
}

fn append(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(more.trim());
}

impl File {
    /// Returns the first words of the file's comment.
    pub(super) fn title(&self) -> &str {
        self.doc.split('.').next().unwrap_or_default()
    }

    /// Renders a heading for each key, with the constants directly below as its values.
    pub(super) fn keys(&self, heading: &str) -> String {
        let mut text = String::new();
        let constants = self.modules.iter().flat_map(|module| &module.constants);
        let mut in_table = false;
        for constant in constants {
            let names = code(&constant.values);
            let doc = self.plain(&constant.doc);
            if constant.begins {
                let _ = writeln!(text, "\n{heading} {names}\n\n{doc}");
                in_table = false;
            } else {
                if !in_table {
                    text.push_str("\n| value | meaning |\n| --- | --- |\n");
                }
                let _ = writeln!(text, "| {names} | {} |", cell(&doc));
                in_table = true;
            }
        }
        text
    }

    /// Renders a table for each module.
    pub(super) fn tables(&self) -> String {
        let mut text = String::new();
        for module in self.modules.iter().filter(|module| !module.constants.is_empty()) {
            let doc = self.plain(&module.doc);
            let (title, rest) = doc.split_once(". ").unwrap_or((doc.trim_end_matches('.'), ""));
            let _ = writeln!(text, "\n## {title}\n");
            if !rest.is_empty() {
                let _ = writeln!(text, "{rest}\n");
            }
            text.push_str("| value | meaning |\n| --- | --- |\n");
            for constant in &module.constants {
                let doc = self.plain(&constant.doc);
                let _ = writeln!(text, "| {} | {} |", code(&constant.values), cell(&doc));
            }
        }
        text
    }

    /// Replaces links of doc comments by the values or the names of their targets.
    fn plain(&self, doc: &str) -> String {
        let mut text = String::new();
        let mut rest = doc;
        while let Some((before, after)) = rest.split_once("[`") {
            let Some((target, after)) = after.split_once("`]") else { break };
            let name = target.rsplit("::").next().unwrap_or(target);
            text.push_str(before);
            let _ = write!(text, "`{}`", self.values.get(name).map_or(name, String::as_str));
            rest = match after.strip_prefix('(').and_then(|link| link.split_once(')')) {
                Some((_, behind)) => behind,
                None => after,
            };
        }
        text + rest
    }
}

fn code(values: &[String]) -> String {
    values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the page of the codes in `pub enum Code`.
pub(super) fn codes(source: &str) -> anyhow::Result<String> {
    let mut text = generated("crates/api/src/code.rs");
    text.push_str(
        "# Error codes\n\nA driver returns one of these codes with each error. The code is in `status.lastOperation.errorCode` of a Machine. The \
         names and numbers are those of gRPC, and `Uninitialized` is 17.\n\n| code | number | meaning |\n| --- | --- | --- |\n",
    );
    let variants = source.lines().map(str::trim).skip_while(|line| *line != "pub enum Code {").skip(1);
    let (mut doc, mut number) = (String::new(), 0);
    for line in variants.take_while(|line| *line != "}") {
        if let Some(comment) = line.strip_prefix("///") {
            append(&mut doc, comment);
        } else if let Some(name) = line.strip_suffix(',').filter(|name| name.chars().all(char::is_alphanumeric)) {
            let _ = writeln!(text, "| `{name}` | {number} | {} |", cell(&std::mem::take(&mut doc)));
            number += 1;
        }
    }
    ensure!(number == 18, "crates/api/src/code.rs has {number} codes without a value, expected 18");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! Annotations.\n\n/// On a Machine: see [`B_VALUE`] and [`Way`](crate::Way).\n/// Users write it.\n\
                          pub const B: &str = \"x/b\";\n/// The value of [`B`].\npub const B_VALUE: &str =\n    \"1\";\n\n/// Two.\n\
                          pub const C: [&str; 2] = [\"x/c\", \"x/d\"];\n#[cfg(test)]\nmod tests {}\n";

    #[test]
    fn key_has_a_heading_and_its_values_below() {
        let file = parse(SOURCE);
        let text = file.keys("##");
        assert_eq!(
            text,
            "\n## `x/b`\n\nOn a Machine: see `1` and `Way`. Users write it.\n\n| value | meaning |\n| --- | --- |\n\
             | `1` | The value of `x/b`. |\n\n## `x/c`, `x/d`\n\nTwo.\n"
        );
        assert_eq!(file.title(), "Annotations");
    }

    #[test]
    fn module_has_a_table() {
        let source = "/// Reasons of a set. The manager writes them.\npub mod set {\n    /// It grew.\n    pub const G: &str = \"Grew\";\n}\n";
        let text = parse(source).tables();
        assert!(text.contains("## Reasons of a set\n\nThe manager writes them.\n"), "{text}");
        assert!(text.contains("| `Grew` | It grew. |\n"), "{text}");
    }
}
