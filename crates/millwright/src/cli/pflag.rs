//! The flag syntax of pflag, in which all existing manifests are written.
//!
//! It differs from clap's syntax. A boolean takes a value only after `=`; every other flag takes the next word,
//! whatever it looks like (`--safety-up -1`). Underscores in names are dashes. Words that belong to no flag are
//! ignored, and so is everything after `--`. One dash introduces one letter, so `-port` is an error. This module
//! rewrites a command line to `--name=value` only, so that clap reads what pflag would read.

use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};

/// A syntax error of pflag, in pflag's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SyntaxError {
    /// `---x` or `--=x`.
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    /// `--port` at the end of the line.
    #[error("flag needs an argument: {0}")]
    NoValue(String),
    /// `-port`.
    #[error("unknown shorthand flag: '{letter}' in {word}; names of more than one letter need two dashes")]
    NoShorthand {
        /// The first letter.
        letter: char,
        /// What was written.
        word: String,
    },
}

impl SyntaxError {
    /// Returns an error of this command, with its usage.
    pub(super) fn for_command(&self, command: &mut Command) -> clap::Error {
        let kind = match self {
            Self::Syntax(_) => ErrorKind::InvalidValue,
            Self::NoValue(_) => ErrorKind::TooFewValues,
            Self::NoShorthand { .. } => ErrorKind::UnknownArgument,
        };
        command.error(kind, self)
    }
}

/// Rewrites all flags of the line as `--name=value`. Unknown flags are kept, so that clap rejects them.
pub(super) fn spelled_out(
    command: &Command,
    line: impl IntoIterator<Item = OsString>,
) -> Result<Vec<OsString>, SyntaxError> {
    let mut words = line.into_iter();
    let mut flags = Vec::new();
    while let Some(raw) = words.next() {
        let Some(word) = raw.to_str() else {
            flags.push(raw); // clap reports that it is not UTF-8
            continue;
        };
        if word == "--" {
            break;
        }
        let read = if let Some(rest) = word.strip_prefix("--") {
            long(command, word, rest)?
        } else if let Some(rest) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            short(command, word, rest)?
        } else {
            continue;
        };
        flags.push(match read {
            Read::Whole(flag) => flag.into(),
            Read::Awaiting(name) => {
                let value = words.next().ok_or_else(|| SyntaxError::NoValue(word.to_owned()))?;
                let mut flag = OsString::from(format!("--{name}="));
                flag.push(value);
                flag
            }
        });
    }
    Ok(flags)
}

/// A parsed word.
enum Read {
    /// A flag with its value.
    Whole(String),
    /// A flag whose value is the next word.
    Awaiting(String),
}

fn long(command: &Command, word: &str, rest: &str) -> Result<Read, SyntaxError> {
    if rest.starts_with(['-', '=']) {
        return Err(SyntaxError::Syntax(word.to_owned()));
    }
    let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    if name == "help" {
        return Ok(Read::Whole("--help".to_owned()));
    }
    Ok(match (value, command.get_arguments().find(|arg| arg.get_long() == Some(&name))) {
        (Some(value), _) => Read::Whole(format!("--{name}={value}")),
        (None, None) => Read::Whole(format!("--{name}")),
        (None, Some(arg)) if is_boolean(arg) => Read::Whole(format!("--{name}=true")),
        (None, Some(_)) => Read::Awaiting(name),
    })
}

fn short(command: &Command, word: &str, letters: &str) -> Result<Read, SyntaxError> {
    let mut rest = letters.chars();
    let Some(letter) = rest.next() else { return Err(SyntaxError::Syntax(word.to_owned())) };
    let rest = rest.as_str();
    let known = command.get_arguments().find(|arg| arg.get_short() == Some(letter)).and_then(Arg::get_long);
    match (known, rest) {
        (Some(name), "") => Ok(Read::Awaiting(name.to_owned())),
        (Some(name), "=") => Ok(Read::Whole(format!("--{name}=="))), // as pflag reads it; not a number in either case
        (Some(name), value) => Ok(Read::Whole(format!("--{name}={}", value.strip_prefix('=').unwrap_or(value)))),
        (None, _) if letter == 'h' => Ok(Read::Whole("--help".to_owned())),
        (None, "") if letter == 'V' => Ok(Read::Whole("--version".to_owned())),
        (None, _) => Err(SyntaxError::NoShorthand { letter, word: word.to_owned() }),
    }
}

/// Reports whether the flag is a boolean.
pub(super) fn is_boolean(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == ValueParser::bool().type_id()
}

#[cfg(test)]
mod tests {
    use super::super::definition::definition;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Shows FLG-4.
        #[test]
        fn rewriting_a_command_line_is_idempotent(
            line in prop::collection::vec(
                prop_oneof![
                    Just("--v"), Just("-v"), Just("-v=3"), Just("-v3"), Just("--leader_elect"), Just("--leader-elect=false"),
                    Just("--namespace"), Just("--namespace=a=b"), Just("--name_space=x"), Just("--"), Just("-"), Just("stray"),
                    Just("-h"), Just("--safety_up"), Just("-1"), Just("--=x"), Just("-port"), Just(""), Just("\u{e4}"),
                ],
                0..12,
            ),
        ) {
            let all = definition();
            let run = all.find_subcommand("run").unwrap();
            if let Ok(once) = spelled_out(run, line.iter().map(OsString::from)) {
                prop_assert!(once.iter().all(|flag| flag.to_string_lossy().starts_with("--")));
                prop_assert_eq!(spelled_out(run, once.clone()), Ok(once));
            }
        }
    }
}
