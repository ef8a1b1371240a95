//! The clap commands: what `derive` generates, with what it cannot express.
//!
//! The three server commands are spelled as pflag spells flags (`pflag`) and differ in some defaults. Their help is
//! grouped and wrapped, and shows every default. That is done here for all flags, so that a new flag only needs a field
//! with a doc comment.

use clap::{Arg, ArgAction, Command, CommandFactory};
use controllers::wiring::defaults;

use super::pflag::is_boolean;
use super::values::go_bool;
use super::{Arguments, NEW, NO_EFFECT};

/// Program names under which the binary may be called, and the command that each name selects.
pub(super) const PROGRAM_NAMES: [(&str, &str); 2] =
    [("machine-controller-manager", "manager"), ("machine-controller", "machine-controller")];

/// Name under which kubectl finds the binary as a plug-in, and the command that its users type.
pub(super) const PLUGIN: (&str, &str) = ("kubectl-millwright", "kubectl millwright");

/// The server commands, and the defaults that differ between them.
pub(super) const SERVERS: [(&str, &[(&str, &str)]); 3] = [
    ("manager", &[("port", "10258"), ("concurrent_syncs", "10")]),
    ("machine-controller", &[("port", "10259"), ("concurrent_syncs", "50")]),
    ("run", &[("port", "10259")]),
];

/// Width of a line of help, without its indentation.
const WIDTH: usize = 88;

/// Help headings, in the order in which help shows them.
pub(super) const HEADINGS: [&str; 10] = [
    "Clusters",
    "Leader election",
    "Timeouts",
    "Drain",
    "Rollouts",
    "Safety",
    "Metrics and health",
    "Logging",
    NEW,
    NO_EFFECT,
];

/// Returns all commands.
pub(crate) fn definition() -> Command {
    SERVERS.into_iter().enumerate().fold(Arguments::command(), |all, (index, (name, own_defaults))| {
        all.mut_subcommand(name, |command| {
            server(name, own_defaults, &command).display_order(index).args_override_self(true).next_line_help(true)
        })
    })
}

/// Returns the command with its own defaults and its flags in the order of [`HEADINGS`]. clap shows groups in the
/// order of their first flag.
fn server(name: &'static str, own_defaults: &[(&str, &'static str)], command: &Command) -> Command {
    let own = |arg: Arg| match own_defaults.iter().find(|(id, _)| arg.get_id() == id) {
        Some((_, value)) => arg.default_value(*value),
        None => arg,
    };
    let mut args: Vec<Arg> = command.get_arguments().cloned().map(|arg| readable(as_pflag(own(arg)))).collect();
    args.sort_by_key(|arg| HEADINGS.iter().position(|heading| arg.get_help_heading() == Some(heading)));
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name).about(about).args(args)
}

/// Lets a boolean flag also accept `--flag=false` and all of Go's spellings.
fn as_pflag(arg: Arg) -> Arg {
    if !is_boolean(&arg) {
        return arg;
    }
    let arg = if matches!(arg.get_action(), ArgAction::SetTrue) { arg.default_value("false") } else { arg };
    arg.action(ArgAction::Set)
        .value_parser(go_bool)
        .value_name("BOOL")
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
}

/// Appends the default to the help of the flag and wraps the help.
fn readable(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let default = match default_of(&arg) {
        Some(default) if !default.is_empty() => Some(format!("[default: {default}]")),
        None if arg.get_id() == "concurrent_syncs" => {
            let (machines, manager) = (defaults::MACHINE_CONTROLLER_WORKERS, defaults::MANAGER_WORKERS);
            Some(format!("[default: {machines} for the machine controller, {manager} for the manager]"))
        }
        _ => None,
    };
    let words = help.split_whitespace().chain(default.as_deref());
    arg.help(wrapped(words)).long_help(None).hide_default_value(true)
}

/// Returns the default of a flag as text.
pub(super) fn default_of(arg: &Arg) -> Option<String> {
    arg.get_default_values().first().map(|value| value.to_string_lossy().into_owned())
}

fn wrapped<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
