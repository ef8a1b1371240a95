//! Pages that point nowhere, and chores that do not exist, are found here before a stranger finds them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::Arguments;
use e2e::workspace::root;

/// Folders whose files pages speak of.
const OURS: [&str; 9] = ["crates/", "deploy/", "docs/", "drivers/", "hack/", "lab/", "proto/", "testing/", "xtask/"];

fn pages() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join("docs"), root().join("deploy")]);
    found.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| root().join(page)));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// A page as prose and as what is typed: links count in the one, commands in the other.
fn parts(page: &str) -> (String, Vec<String>) {
    let (mut prose, mut typed, mut in_block) = (String::new(), Vec::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            typed.push(line.split(" #").next().unwrap_or_default().trim().to_owned());
        } else {
            for (place, piece) in line.split('`').enumerate() {
                if place % 2 == 0 {
                    prose.push_str(piece);
                } else {
                    typed.push(piece.to_owned());
                }
            }
            prose.push('\n');
        }
    }
    (prose, typed)
}

fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The name by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn has_heading(page: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(page).unwrap_or_default();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

/// Shows DEP-7.
#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&parts(&text).0) {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            assert!(heading.is_empty() || has_heading(&target, heading), "{}: {link} has no end", page.display());
        }
    }
    assert!(seen > 100, "{seen} links are too few to be all");
}

/// Shows DEP-7.
#[test]
fn every_file_that_a_page_names_is_there_and_every_chore_is_known() {
    let (mut files, mut chores) = (0, 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for typed in parts(&text).1 {
            let unfinished = typed.contains(['…', '<', '*', '{']);
            if let (Some(line), false) = (typed.strip_prefix("cargo xtask "), unfinished) {
                chores += 1;
                let read = Arguments::try_parse_from(["cargo xtask"].into_iter().chain(line.split_whitespace()));
                let missing = clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
                let lacking = clap::error::ErrorKind::MissingRequiredArgument;
                let wrong = read.err().filter(|error| ![missing, lacking].contains(&error.kind()));
                assert!(wrong.is_none(), "{}: {typed}: {}", page.display(), wrong.unwrap());
            }
            let words = typed.split_whitespace().filter(|word| OURS.iter().any(|folder| word.starts_with(folder)));
            for word in words.filter(|_| !unfinished) {
                // What is gone was there when the decision or the change was written down.
                let past = |part: std::path::Component<'_>| part.as_os_str() == "adr" || part.as_os_str() == "releases";
                if page.components().any(past) || page.ends_with("CHANGELOG.md") {
                    continue;
                }
                files += 1;
                let path = word.split([':', ',']).next().unwrap_or_default();
                assert!(root().join(path).exists(), "{}: {path} is not there: {typed}", page.display());
            }
        }
    }
    assert!(files > 50 && chores > 20, "{files} files and {chores} chores are too few to be all");
}

#[test]
fn every_answer_of_the_ten_questions_is_there_and_near_the_crate_list() {
    let page = fs::read_to_string(root().join("docs/contributing/architecture.md")).unwrap();
    let (_, rest) = page.split_once("\n## Ten questions\n").expect("the questions");
    let questions = rest.split("\n## ").next().unwrap_or_default();
    let answers: Vec<(&str, &str)> = questions
        .lines()
        .filter(|line| line.contains("? |"))
        .map(|line| {
            let mut cells = line.split('|').skip(2).map(|cell| cell.trim().trim_matches('`'));
            (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
        })
        .collect();
    assert_eq!(answers.len(), 10);
    for (file, function) in answers {
        let text = fs::read_to_string(root().join(file)).unwrap_or_else(|_| panic!("{file} is not there"));
        assert!(
            text.contains(&format!("fn {function}(")) || text.contains(&format!("fn {function}<")),
            "{file}: {function}"
        );
        let inside = file.split_once("/src/").expect("a file of a crate").1;
        assert!(inside.split('/').count() <= 2, "{file} is more than two hops from its crate");
    }
}

#[test]
fn a_page_is_taken_apart() {
    let (prose, typed) = parts("see [a](b.md#c) and `[x](y)`\n```sh\ncargo xtask e2e # all\n```\n");
    assert_eq!(links(&prose).collect::<Vec<_>>(), ["b.md#c"]);
    assert_eq!(typed, ["[x](y)", "cargo xtask e2e"]);
    assert_eq!(anchor(" What's `new`, then?"), "whats-new-then");
}
