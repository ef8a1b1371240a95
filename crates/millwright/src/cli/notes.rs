//! What the log says about the flags when a process starts.
//!
//! A person who reads a log of yesterday wants to know what was asked for: `--v=2` lists every flag with its value, in the reference's words. And a flag that changes
//! nothing says so at any verbosity, once: whoever sets it expects something.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::IDLE;
use super::values::Span;

/// From which verbosity on all flags are listed.
const FLAGS_FROM: i32 = 2;

/// What there is to say.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Every flag, by name, with its value.
    flags: Vec<(String, String)>,
    /// What is to be said of those that were given in vain.
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
            let value = match matches.try_get_one::<Span>(id) {
                Ok(Some(span)) => span.to_string(),
                _ => written.unwrap_or_default(),
            };
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
            tracing::info!("Version: {}", env!("CARGO_PKG_VERSION"));
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
