//! The tables of `docs/reference/flags.md`, generated from the flags themselves.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Arg, Command};

use super::definition::{HEADINGS, SERVERS, default_of, definition};
use super::{NEW, NO_EFFECT};

const BEGIN: &str = "<!-- generated: UPDATE_PAGES=1 cargo test -p millwright flags_page -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// Returns the tables of the flags of all server commands, one per heading, in the order of help.
fn tables() -> String {
    let all = definition();
    let commands: Vec<&Command> = SERVERS.iter().filter_map(|(name, _)| all.find_subcommand(name)).collect();
    let mut page = String::new();
    for heading in HEADINGS {
        let mut rows: Vec<&Arg> = Vec::new();
        let mut by_name: BTreeMap<&str, Vec<(&str, &Arg)>> = BTreeMap::new();
        for command in &commands {
            for arg in command.get_arguments().filter(|arg| arg.get_help_heading() == Some(heading)) {
                let of_this_name = by_name.entry(arg.get_long().unwrap_or_default()).or_default();
                if of_this_name.is_empty() {
                    rows.push(arg);
                }
                of_this_name.push((command.get_name(), arg));
            }
        }
        let about = match heading {
            NEW => "\nMCM does not have these flags.\n",
            NO_EFFECT => {
                "\nExisting manifests may contain these flags. They are parsed and validated as in MCM, and a warning is logged. The last column gives the reason why they have no effect.\n"
            }
            _ => "",
        };
        let _ = write!(
            page,
            "\n## {heading}\n{about}\n| flag | default | component | meaning |\n| --- | --- | --- | --- |\n"
        );
        for arg in rows {
            let name = arg.get_long().unwrap_or_default();
            let known = by_name.get(name).map(Vec::as_slice).unwrap_or_default();
            let _ = writeln!(page, "| {} | {} | {} | {} |", spelled(arg), defaults(known), of(known), meaning(arg));
        }
    }
    page
}

fn spelled(arg: &Arg) -> String {
    let short = arg.get_short().map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    let value = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string).unwrap_or_default();
    format!("{short}`--{} {value}`", arg.get_long().unwrap_or_default())
}

/// Returns one default if the components agree, otherwise the default of each component. `run` uses the defaults of
/// its components.
fn defaults(known: &[(&str, &Arg)]) -> String {
    let quoted = |arg: &Arg| default_of(arg).filter(|text| !text.is_empty()).map(|text| format!("`{text}`"));
    let components: Vec<_> = known.iter().filter(|(command, _)| known.len() == 1 || *command != "run").collect();
    let texts: Vec<String> = components.iter().filter_map(|(_, arg)| quoted(arg)).collect();
    match texts.as_slice() {
        [manager, machine] if manager != machine => format!("{manager} (manager), {machine} (machine controller)"),
        [text, ..] => text.clone(),
        [] => String::new(),
    }
}

fn of(known: &[(&str, &Arg)]) -> &'static str {
    let has = |command| known.iter().any(|(name, _)| *name == command);
    match (has("manager"), has("machine-controller")) {
        (true, true) => "both",
        (true, false) => "manager",
        (false, true) => "machine controller",
        (false, false) => "`run` only",
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let meaning = help.split(" [default: ").next().unwrap_or_default();
    meaning.replace('|', "\\|")
}

/// Shows FLG-10.
#[test]
#[allow(clippy::disallowed_methods, reason = "an environment variable requests the update of the page")]
fn flags_page_matches_the_program() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/flags.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the mark at the start of the tables");
    let (_, after) = rest.split_once(END).expect("the mark at the end of the tables");
    let expected = format!("{before}{BEGIN}{}\n{END}{after}", tables());
    if std::env::var("UPDATE_PAGES").is_ok() {
        std::fs::write(path, &expected).unwrap();
    } else {
        assert!(
            page == expected,
            "docs/reference/flags.md is out of date: run UPDATE_PAGES=1 cargo test -p millwright flags_page"
        );
    }
}
