//! From the words on the command line to what is to be done.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Command as Definition, FromArgMatches};

use super::definition::{CALLED, PLUGIN, SERVERS, definition};
use super::notes::Notes;
use super::pflag::spelled_out;
use super::{Arguments, BuiltIn, Command, validation};
use crate::build_info;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The command with its flags.
    pub(crate) command: Command,
    /// What the log is to say about the flags.
    pub(crate) notes: Notes,
    /// What is wrong with them, all of it.
    pub(crate) complaints: Vec<String>,
}

/// Reads a command line, the name of the program in front; `built_in` are the drivers that this program brings along. The error is usage, for
/// a person to read; it knows its exit code.
pub(crate) fn read(line: impl IntoIterator<Item = OsString>, built_in: &[BuiltIn<'_>]) -> Result<Asked, clap::Error> {
    let mut words: Vec<OsString> = line.into_iter().collect();
    let all = definition();
    let program = words.first().and_then(|path| Path::new(path).file_name()).unwrap_or_default().to_os_string();
    if let Some((name, command)) = CALLED.into_iter().find(|(name, _)| program == OsStr::new(name)) {
        let flags = words.split_off(1.min(words.len()));
        return read_server(&all, command, name, flags, built_in);
    }
    let all = if program == OsStr::new(PLUGIN.0) { all.bin_name(PLUGIN.1) } else { all };
    let second = words.get(1).and_then(|word| word.to_str());
    if let Some((command, _)) = SERVERS.into_iter().find(|(name, _)| second == Some(name)) {
        let flags = words.split_off(2.min(words.len()));
        return read_server(&all, command, &format!("millwright {command}"), flags, built_in);
    }
    let command = Arguments::from_arg_matches(&all.try_get_matches_from(words)?)?.command;
    Ok(Asked { command, notes: Notes::default(), complaints: Vec::new() })
}

/// Reads the flags of a command that looks after a cluster; `called` is what its usage calls it.
fn read_server(
    all: &Definition,
    command: &str,
    called: &str,
    flags: Vec<OsString>,
    built_in: &[BuiltIn<'_>],
) -> Result<Asked, clap::Error> {
    let Some(found) = all.find_subcommand(command) else {
        return Err(all.clone().error(clap::error::ErrorKind::InvalidSubcommand, "no such command"));
    };
    let mut definition =
        found.clone().bin_name(called).display_name("millwright").version(build_info::LONG).no_binary_name(true);
    let flags = spelled_out(&definition, flags).map_err(|misspelt| misspelt.for_command(&mut definition))?;
    let matches = definition.try_get_matches_from_mut(flags).map_err(|mut error| {
        // clap leaves usage out where a value is wrong; MCM never does.
        if error.exit_code() != 0 && error.get(ContextKind::Usage).is_none() {
            error.insert(ContextKind::Usage, ContextValue::StyledStr(definition.render_usage()));
        }
        error
    })?;
    let complaints = validation::out_of_range(&definition, &matches);
    let notes = Notes::of(command, &definition, &matches);
    let command = parsed(command, &matches)?;
    let complaints = complaints.into_iter().chain(validation::contradictions(&command, built_in)).collect();
    Ok(Asked { command, notes, complaints })
}

fn parsed(command: &str, matches: &ArgMatches) -> Result<Command, clap::Error> {
    Ok(match command {
        "manager" => Command::Manager(Box::new(FromArgMatches::from_arg_matches(matches)?)),
        "machine-controller" => Command::MachineController(Box::new(FromArgMatches::from_arg_matches(matches)?)),
        _ => Command::Run(Box::new(FromArgMatches::from_arg_matches(matches)?)),
    })
}
