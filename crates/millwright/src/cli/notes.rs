//! What the log says about the flags when a process starts.
//!
//! A person who reads a log of yesterday wants to know what was asked for: `--v=2` lists every flag with its value, in MCM's words. And a flag that changes
//! nothing says so at any verbosity, once: whoever sets it expects something.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::IDLE;
use super::values::Span;
use crate::build_info;

/// From which verbosity on all flags are listed.
const FLAGS_FROM: i32 = 2;

/// MCM takes it as well, and means the same. Hardly anybody does.
const NO_TIME_TO_JOIN: &str = "--machine-creation-timeout=0s gives every machine up whose Node has not joined at the first \
                               look, as MCM does; no driver call is bounded by it";

/// What there is to say.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Every flag, by name, with its value.
    flags: Vec<(String, String)>,
    /// What is to be said of those that were given in vain, or hardly on purpose.
    idle: Vec<String>,
    /// From which verbosity on the version is told.
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
                notes.idle.push(NO_TIME_TO_JOIN.to_owned());
            }
            notes.flags.push((name.to_owned(), value));
            if arg.get_help_heading() == Some(IDLE) && matches.value_source(id) == Some(ValueSource::CommandLine) {
                let why = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
                let why = why.split(" [default").next().unwrap_or_default().to_owned();
                notes.idle.push(format!("--{name} has no effect: {}", why.trim_end_matches('.')));
            }
        }
        notes.flags.sort_unstable();
        notes
    }

    /// Tells it.
    pub(crate) fn tell(&self, verbosity: i32) {
        if verbosity >= self.version_from {
            tracing::info!("Version: {}", build_info::LONG);
        }
        if verbosity >= FLAGS_FROM {
            for (name, value) in &self.flags {
                tracing::info!("FLAG: --{name}={value:?}");
            }
        }
        for note in &self.idle {
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
    fn a_creation_timeout_of_zero_is_taken_as_the_reference_takes_it_and_told() {
        let definition = || {
            let span = |text: &str| text.parse::<Span>();
            Command::new("x").arg(Arg::new("t").long("machine-creation-timeout").value_parser(span))
        };
        let told = |given: &str| {
            let matches = definition().try_get_matches_from(["x", "--machine-creation-timeout", given]).unwrap();
            Notes::of("x", &definition(), &matches).idle
        };
        assert_eq!(told("0s"), [NO_TIME_TO_JOIN]);
        assert_eq!(told("20m"), [""; 0]);
    }
}
