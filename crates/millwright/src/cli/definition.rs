//! The commands as clap is to know them: what `derive` makes of the structs, with what it cannot say.
//!
//! The three commands that look after a cluster are spelled as pflag spells (`pflag`) and differ from one another in some
//! defaults. Their help is grouped, wrapped, and tells every default; that is done here for all flags at once, so that a new flag is nothing but a field
//! with a comment.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::pflag::is_boolean;
use super::values::go_bool;
use super::{Arguments, IDLE, NEW};

/// Names that the binary may be called by, and the command each of them is.
pub(super) const CALLED: [(&str, &str); 2] =
    [("machine-controller-manager", "manager"), ("machine-controller", "machine-controller")];

/// The name under which kubectl finds us as its plug-in, and what its users type.
pub(super) const PLUGIN: (&str, &str) = ("kubectl-millwright", "kubectl millwright");

/// The commands that look after a cluster, and the defaults that are theirs alone.
pub(super) const SERVERS: [(&str, &[(&str, &str)]); 3] = [
    ("manager", &[("port", "10258"), ("concurrent_syncs", "10")]),
    ("machine-controller", &[("port", "10259"), ("concurrent_syncs", "50")]),
    ("run", &[("port", "10259")]),
];

/// How wide a line of help is, without its indentation.
const WIDTH: usize = 88;

/// The groups of help, in the order in which a person who sets something up wants to read them.
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
    IDLE,
];

/// All commands.
pub(crate) fn definition() -> Command {
    SERVERS.into_iter().enumerate().fold(Arguments::command(), |all, (place, (name, defaults))| {
        all.mut_subcommand(name, |command| {
            server(name, defaults, &command).display_order(place).args_override_self(true).next_line_help(true)
        })
    })
}

/// The command with its own defaults, its flags in the order of [`HEADINGS`]: clap shows groups in the order in which it meets them.
fn server(name: &'static str, defaults: &[(&str, &'static str)], command: &Command) -> Command {
    let own = |arg: Arg| match defaults.iter().find(|(id, _)| arg.get_id() == id) {
        Some((_, value)) => arg.default_value(*value),
        None => arg,
    };
    let mut args: Vec<Arg> = command.get_arguments().cloned().map(|arg| readable(as_pflag(own(arg)))).collect();
    args.sort_by_key(|arg| HEADINGS.iter().position(|heading| arg.get_help_heading() == Some(heading)));
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(name).about(about).args(args)
}

/// A boolean that is also read as `--flag=false`, and in all of Go's spellings.
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

/// The same flag with its default in its help, and the help in lines.
fn readable(arg: Arg) -> Arg {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let default = match default_of(&arg) {
        Some(default) if !default.is_empty() => Some(format!("[default: {default}]")),
        None if arg.get_id() == "concurrent_syncs" => {
            Some("[default: 50 for machines, 10 for sets and deployments]".to_owned())
        }
        _ => None,
    };
    let words = help.split_whitespace().chain(default.as_deref());
    arg.help(wrapped(words)).long_help(None).hide_default_value(true)
}

/// The default of a flag, as text.
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
