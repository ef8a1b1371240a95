//! Rejects idioms in the project's text.
//!
//! Text that users see (pages, messages, help) may contain none. In comments of the source their number may only fall: the limit is
//! in `limit.txt`. The list does not replace reading; it keeps words out that a first review found.

mod idioms;
mod text;

use std::fs;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use e2e::workspace::root;
use idioms::Idioms;
use text::{Kind, Passage};

/// Arguments of `cargo xtask prose`.
#[derive(Args)]
pub(crate) struct ChoreArgs {
    /// Print each comment with an idiom.
    #[arg(long)]
    list: bool,
    /// Lower the limit to the number of comments with an idiom.
    #[arg(long)]
    lower: bool,
    /// Only files whose path begins with one of these. The limit is not checked.
    paths: Vec<String>,
}

const LIMIT: &str = "xtask/src/prose/limit.txt";

/// Paths that are not checked: generated code, the lists of idioms, and words of other projects.
const EXCLUDED: &[&str] = &["drivers/remote/generated/", "xtask/src/prose/"];

/// Checks all text that git knows of or would add.
#[allow(clippy::print_stdout, reason = "the report is the output of the chore")]
pub(crate) fn check(args: &ChoreArgs) -> anyhow::Result<()> {
    let idioms = Idioms::read()?;
    let mut visible = Vec::new();
    let (mut comments, mut with_idiom) = (0_usize, 0_usize);
    for file in files(&args.paths)? {
        let content = fs::read_to_string(root().join(&file)).with_context(|| format!("failed to read {file}"))?;
        for passage in text::passages(&file, &content) {
            let found = idioms.find(&passage.text);
            comments += usize::from(passage.kind == Kind::Comment);
            if found.is_empty() {
                continue;
            }
            let line = describe(&file, &passage, &found);
            if passage.kind == Kind::Visible {
                visible.push(line);
            } else {
                with_idiom += 1;
                if args.list {
                    println!("{line}");
                }
            }
        }
    }
    if !visible.is_empty() {
        bail!("text that users see contains idioms:\n  {}", visible.join("\n  "));
    }
    #[allow(clippy::cast_precision_loss, reason = "a percentage with two digits")]
    let share = with_idiom as f64 * 100.0 / comments.max(1) as f64;
    println!("prose: no idiom in text that users see; {with_idiom} of {comments} comments contain one ({share:.2} %)");
    if args.paths.is_empty() { compare(with_idiom, args.lower) } else { Ok(()) }
}

/// Compares the number of comments with the limit.
#[allow(clippy::print_stdout, reason = "the report is the output of the chore")]
fn compare(with_idiom: usize, lower: bool) -> anyhow::Result<()> {
    let path = root().join(LIMIT);
    let limit = fs::read_to_string(&path).with_context(|| format!("failed to read {LIMIT}"))?;
    let limit: usize = limit.trim().parse().with_context(|| format!("{LIMIT} must contain one number"))?;
    ensure!(
        with_idiom <= limit,
        "{with_idiom} comments contain an idiom and {LIMIT} allows {limit}; `cargo xtask prose --list` prints them"
    );
    if with_idiom < limit {
        if lower {
            fs::write(&path, format!("{with_idiom}\n")).with_context(|| format!("failed to write {LIMIT}"))?;
        } else {
            println!("{LIMIT} allows {limit}; `cargo xtask prose --lower` lowers it");
        }
    }
    Ok(())
}

fn describe(file: &str, passage: &Passage, found: &[(String, &str)]) -> String {
    let hints: Vec<String> = found.iter().map(|(idiom, plain)| format!("{idiom:?} ({plain})")).collect();
    format!("{file}:{}: {}", passage.line, hints.join(", "))
}

/// Returns the files to check, relative to the root.
fn files(paths: &[String]) -> anyhow::Result<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let listed = git.output().context("failed to start git")?;
    ensure!(listed.status.success(), "git failed to list the files");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let is_wanted = |file: &&str| {
        !EXCLUDED.iter().any(|folder| file.starts_with(folder))
            && (paths.is_empty() || paths.iter().any(|path| file.starts_with(path.as_str())))
            && root().join(file).is_file()
            && text::is_checked(file)
    };
    Ok(listed.lines().filter(is_wanted).map(str::to_owned).collect())
}
