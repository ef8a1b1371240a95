//! Writes the reference pages of `docs/reference` from the code: `cargo xtask reference`.
//!
//! The fields come from the CRDs, whose descriptions are the doc comments of the types. Annotations, labels, taints, finalizers, conditions,
//! Event reasons and error codes come from the constants of the crate `api` and their doc comments.

mod constants;
mod fields;

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, bail};

use crate::crds::Mode;
use e2e::workspace::root;

const NAMES: &str = "crates/api/src/names";
const CODES: &str = "crates/api/src/code.rs";

/// A page made from constants.
struct Page {
    file: &'static str,
    title: &'static str,
    intro: &'static str,
    sources: &'static [&'static str],
    form: Form,
}

/// The form of a page made from constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A heading for each key. Constants directly below a key are its values.
    Keys,
    /// A table for each module.
    Tables,
}

const PAGES: [Page; 5] = [
    Page {
        file: "annotations.md",
        title: "Annotations",
        intro: "Annotations that Millwright reads or writes, with their writers and readers.",
        sources: &["annotations.rs"],
        form: Form::Keys,
    },
    Page {
        file: "labels.md",
        title: "Labels",
        intro: "Labels that Millwright reads or writes, with their writers and readers.",
        sources: &["labels.rs"],
        form: Form::Keys,
    },
    Page {
        file: "taints-and-finalizers.md",
        title: "Taints and finalizers",
        intro: "Taints that Millwright sets on or expects from Nodes, and the finalizers that it sets.",
        sources: &["taints.rs", "finalizers.rs"],
        form: Form::Keys,
    },
    Page {
        file: "conditions.md",
        title: "Conditions",
        intro: "Types, reasons and fixed messages of conditions. Messages that name an object or a time are not listed.",
        sources: &["conditions.rs"],
        form: Form::Tables,
    },
    Page {
        file: "events.md",
        title: "Events",
        intro: "Reasons of the Events that Millwright emits. `kubectl get events` shows them.",
        sources: &["events.rs"],
        form: Form::Tables,
    },
];

/// Writes the pages, or compares them with the code.
#[allow(clippy::print_stdout, reason = "the report is the output of the chore")]
pub(crate) fn write(mode: Mode) -> anyhow::Result<()> {
    let mut pages = vec![
        ("fields.md", fields::page(&root().join("deploy/crds"))?),
        ("error-codes.md", constants::codes(&source(CODES)?)?),
    ];
    for page in PAGES {
        let mut text = format!("{}# {}\n\n{}\n", generated(NAMES), page.title, page.intro);
        for name in page.sources {
            let file = constants::parse(&source(&format!("{NAMES}/{name}"))?);
            if page.sources.len() > 1 {
                let _ = write!(text, "\n## {}\n", file.title());
            }
            text.push_str(&match page.form {
                Form::Keys => file.keys(if page.sources.len() > 1 { "###" } else { "##" }),
                Form::Tables => file.tables(),
            });
        }
        pages.push((page.file, text));
    }
    let folder = root().join("docs/reference");
    for (name, text) in &pages {
        let path = folder.join(name);
        match mode {
            Mode::Write => fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?,
            Mode::Check if fs::read_to_string(&path).is_ok_and(|found| found == *text) => {}
            Mode::Check => {
                bail!("docs/reference/{name} is out of date; run `cargo xtask reference` and commit the result")
            }
        }
    }
    println!("reference: {} pages", pages.len());
    Ok(())
}

/// A comment for editors of a page.
fn generated(from: &str) -> String {
    format!("<!-- Written by `cargo xtask reference` from {from}. Edit the comments there. -->\n\n")
}

fn source(file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("failed to read {file}"))
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
