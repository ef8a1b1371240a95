//! Checks that manifests and documentation pages use only flags and commands that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::definition::definition;
use super::{DriverProcess, parse};

/// Programs of other projects, and words of the shell. Their flags are not checked.
const OTHERS: [&str; 12] = [
    "kubectl",
    "kubeadm",
    "helm",
    "docker",
    "cargo",
    "python",
    "protoc",
    "printf",
    "for",
    "uid=$(kubectl",
    "jq",
    "openstack",
];

/// Pages for developers of Millwright. They document the flags of `cargo xtask`, which are not checked here.
const CHORES: [&str; 4] = ["testing.md", "control-plane.md", "architecture.md", "behaviours.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Collects all files below a directory that have this extension.
fn files(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, into);
        } else if path.extension().is_some_and(|found| found == ending) {
            into.push(path);
        }
    }
}

/// Returns the command lines of a page: the lines of its code blocks, with continued lines joined, and inline code.
fn snippets(page: &str) -> Vec<String> {
    let (mut found, mut in_block, mut begun) = (Vec::new(), false, String::new());
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let line = line.split(" #").next().unwrap_or_default().trim();
            begun.push_str(line.trim_end_matches('\\'));
            if !line.ends_with('\\') {
                found.push(std::mem::take(&mut begun));
            }
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// Returns the flags of all commands.
fn known() -> BTreeSet<String> {
    let mut all = definition();
    all.build();
    let commands = all.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    let process = DriverProcess::command();
    let flags = commands.flat_map(clap::Command::get_arguments).chain(process.get_arguments());
    let mut known: BTreeSet<String> = flags.filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    known.insert("name".to_owned()); // placeholder for any flag in flags.md
    known
}

fn flags_in(words: &[&str]) -> Vec<String> {
    let flags = words.iter().filter_map(|word| word.strip_prefix("--"));
    let names = flags.map(|flag| flag.split(['=', ',', ':', ')']).next().unwrap_or_default().to_owned());
    let spelled = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    names.filter(|name| name.starts_with(char::is_alphabetic) && name.chars().all(spelled)).collect()
}

/// Shows DEP-7.
#[test]
fn flags_and_commands_in_the_docs_exist() {
    let mut pages = vec![root().join("README.md"), root().join("deploy/README.md")];
    files(&root().join("docs"), "md", &mut pages);
    let of_chores = |page: &PathBuf| {
        let folder = page.parent().and_then(Path::file_name);
        CHORES.iter().any(|name| page.ends_with(name)) || folder.is_some_and(|f| f == "adr" || f == "behaviours")
    };
    pages.retain(|page| !of_chores(page));
    let (known, mut seen, mut lines, mut wrong) = (known(), 0, 0, Vec::new());
    for page in pages {
        for snippet in snippets(&fs::read_to_string(&page).unwrap()) {
            // Redirected output is not part of the command.
            let words: Vec<&str> = snippet.split_whitespace().take_while(|word| *word != ">").collect();
            if words.first().is_some_and(|first| OTHERS.contains(first)) {
                continue;
            }
            for flag in flags_in(&words) {
                seen += 1;
                if !known.contains(&flag) {
                    wrong.push(format!("{}: unknown flag --{flag}: {snippet}", page.display()));
                }
            }
            if words.len() > 1 && words.first() == Some(&"millwright") && !snippet.contains(['…', '<']) {
                lines += 1;
                let misread = parse(words.iter().map(std::ffi::OsString::from), &[]).err().map(|error| error.kind());
                // A page may mention a command without its required arguments.
                let whole = matches!(misread, None | Some(ErrorKind::MissingRequiredArgument));
                if !whole {
                    wrong.push(format!("{}: {misread:?}: {snippet}", page.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 100 && lines > 10, "found only {seen} flags and {lines} command lines");
}

/// Shows DEP-7.
#[test]
fn flags_in_manifests_exist() {
    let mut manifests = Vec::new();
    files(&root().join("deploy"), "yaml", &mut manifests);
    let (known, mut seen) = (known(), 0);
    for manifest in manifests {
        let text = fs::read_to_string(&manifest).unwrap();
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        for line in lines {
            let argument = line.strip_prefix("- ").or_else(|| line.strip_prefix("value: ")).unwrap_or_default();
            for flag in flags_in(&[argument.trim_matches('"')]) {
                seen += 1;
                assert!(known.contains(&flag), "{}: unknown flag --{flag}", manifest.display());
            }
        }
    }
    assert!(seen > 30, "found only {seen} flags");
}

#[test]
fn snippets_and_flags_are_extracted_from_a_page() {
    let page = "say `--a=1` or `run --b`\n```sh\nmillwright run --c \\\n  --d x # --e\n```\n";
    assert_eq!(snippets(page), ["--a=1", "run --b", "millwright run --c --d x"]);
    assert_eq!(flags_in(&["run", "--b", "--c=2", "---", "-v"]), ["b", "c"]);
}
