//! Parses the command line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Command as Definition, FromArgMatches};

use super::definition::{PLUGIN, PROGRAM_NAMES, SERVERS, definition};
use super::notes::Notes;
use super::pflag::spelled_out;
use super::{Arguments, BuiltIn, Command, validation};
use crate::build_info;

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// The command with its flags.
    pub(crate) command: Command,
    /// Log messages about the flags.
    pub(crate) notes: Notes,
    /// All problems of the flags.
    pub(crate) problems: Vec<String>,
}

/// Parses a command line that begins with the name of the program. `built_in` are the drivers of this program. The
/// error is a usage message and knows its exit code.
pub(crate) fn parse(
    line: impl IntoIterator<Item = OsString>,
    built_in: &[BuiltIn<'_>],
) -> Result<Invocation, clap::Error> {
    let mut words: Vec<OsString> = line.into_iter().collect();
    let all = definition();
    let program = words.first().and_then(|path| Path::new(path).file_name()).unwrap_or_default().to_os_string();
    if let Some((name, command)) = PROGRAM_NAMES.into_iter().find(|(name, _)| program == OsStr::new(name)) {
        let flags = words.split_off(1.min(words.len()));
        return parse_server(&all, command, name, flags, built_in);
    }
    let all = if program == OsStr::new(PLUGIN.0) { all.bin_name(PLUGIN.1) } else { all };
    let second = words.get(1).and_then(|word| word.to_str());
    if let Some((command, _)) = SERVERS.into_iter().find(|(name, _)| second == Some(name)) {
        let flags = words.split_off(2.min(words.len()));
        return parse_server(&all, command, &format!("millwright {command}"), flags, built_in);
    }
    let command = Arguments::from_arg_matches(&all.try_get_matches_from(words)?)?.command;
    Ok(Invocation { command, notes: Notes::default(), problems: Vec::new() })
}

/// Parses the flags of a server command. `called` is the name of the command in its usage.
fn parse_server(
    all: &Definition,
    command: &str,
    called: &str,
    flags: Vec<OsString>,
    built_in: &[BuiltIn<'_>],
) -> Result<Invocation, clap::Error> {
    let Some(found) = all.find_subcommand(command) else {
        return Err(all.clone().error(clap::error::ErrorKind::InvalidSubcommand, "no such command"));
    };
    let mut definition =
        found.clone().bin_name(called).display_name("millwright").version(build_info::LONG).no_binary_name(true);
    let flags = spelled_out(&definition, flags).map_err(|error| error.for_command(&mut definition))?;
    let matches = definition.try_get_matches_from_mut(flags).map_err(|mut error| {
        // clap omits the usage if a value is wrong; MCM never does.
        if error.exit_code() != 0 && error.get(ContextKind::Usage).is_none() {
            error.insert(ContextKind::Usage, ContextValue::StyledStr(definition.render_usage()));
        }
        error
    })?;
    let problems = validation::out_of_range(&definition, &matches);
    let notes = Notes::of(command, &definition, &matches);
    let command = command_of(command, &matches)?;
    let problems = problems.into_iter().chain(validation::conflicts(&command, built_in)).collect();
    Ok(Invocation { command, notes, problems })
}

fn command_of(command: &str, matches: &ArgMatches) -> Result<Command, clap::Error> {
    Ok(match command {
        "manager" => Command::Manager(Box::new(FromArgMatches::from_arg_matches(matches)?)),
        "machine-controller" => Command::MachineController(Box::new(FromArgMatches::from_arg_matches(matches)?)),
        _ => Command::Run(Box::new(FromArgMatches::from_arg_matches(matches)?)),
    })
}
