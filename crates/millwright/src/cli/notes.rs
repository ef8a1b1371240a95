//! Log messages about flags at the start of a process.
//!
//! `--v=2` logs every flag with its value, in MCM's format. A flag that has no effect is logged once at any verbosity,
//! because the user expects an effect.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::NO_EFFECT;
use super::values::Span;
use crate::build_info;

/// Verbosity from which all flags are logged.
const FLAGS_FROM: i32 = 2;

/// MCM accepts the value too, with the same meaning. It is rarely intended.
const ZERO_CREATION_TIMEOUT: &str = "--machine-creation-timeout=0s marks a Machine Failed on the first check if its Node \
                                     has not joined (as in MCM), and disables the timeout for CreateMachine";

/// Log messages about flags.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Every flag with its value, sorted by name.
    flags: Vec<(String, String)>,
    /// Warnings about flags that have no effect or an unlikely value.
    warnings: Vec<String>,
    /// Verbosity from which the version is logged.
    version_from: i32,
}

impl Notes {
    pub(super) fn of(command: &str, definition: &Command, matches: &ArgMatches) -> Self {
        let mut notes = Self { version_from: if command == "machine-controller" { 4 } else { 3 }, ..Self::default() };
        for arg in definition.get_arguments() {
            let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            let Ok(raw) = matches.try_get_raw(id) else { continue };
            let written = raw.and_then(Iterator::last).map(|value| value.to_string_lossy().into_owned());
            let span = matches.try_get_one::<Span>(id).ok().flatten();
            let value = span.map_or_else(|| written.unwrap_or_default(), ToString::to_string);
            if name == "machine-creation-timeout" && span.is_some_and(|span| span.get().is_zero()) {
                notes.warnings.push(ZERO_CREATION_TIMEOUT.to_owned());
            }
            notes.flags.push((name.to_owned(), value));
            if arg.get_help_heading() == Some(NO_EFFECT) && matches.value_source(id) == Some(ValueSource::CommandLine) {
                let why = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
                let why = why.split(" [default").next().unwrap_or_default().to_owned();
                notes.warnings.push(format!("--{name} has no effect: {}", why.trim_end_matches('.')));
            }
        }
        notes.flags.sort_unstable();
        notes
    }

    /// Logs the messages.
    pub(crate) fn log(&self, verbosity: i32) {
        if verbosity >= self.version_from {
            tracing::info!("Version: {}", build_info::LONG);
        }
        if verbosity >= FLAGS_FROM {
            for (name, value) in &self.flags {
                tracing::info!("FLAG: --{name}={value:?}");
            }
        }
        for note in &self.warnings {
            tracing::warn!("{note}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    /// Shows LIM-14.
    #[test]
    fn creation_timeout_of_zero_is_accepted_with_a_warning() {
        let definition = || {
            let span = |text: &str| text.parse::<Span>();
            Command::new("x").arg(Arg::new("t").long("machine-creation-timeout").value_parser(span))
        };
        let warnings = |given: &str| {
            let matches = definition().try_get_matches_from(["x", "--machine-creation-timeout", given]).unwrap();
            Notes::of("x", &definition(), &matches).warnings
        };
        assert_eq!(warnings("0s"), [ZERO_CREATION_TIMEOUT]);
        assert_eq!(warnings("20m"), [""; 0]);
    }
}
