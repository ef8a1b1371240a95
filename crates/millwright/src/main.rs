//! The `millwright` binary: commands, flags, wiring.

mod cli;
#[cfg(feature = "dev")]
mod cloud;
mod crds;
#[cfg(feature = "dev")]
mod demo;
#[cfg(feature = "dev")]
mod dev;
mod drain_flags;
#[cfg(feature = "failpoints")]
mod failpoints;
mod http;
mod print;
mod run;
#[cfg(feature = "dev")]
mod serve;
mod traces;

use std::process::ExitCode;

#[cfg(feature = "dev")]
use cli::DevCommand;
use cli::{Asked, Command, Servers};

/// The system's allocator keeps what a burst of lists once needed; mimalloc gives it back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[allow(clippy::print_stderr, reason = "the last word to the person who called, when there may be no log yet")]
fn main() -> ExitCode {
    let Asked { command, notes, complaints } = match cli::read(std::env::args_os(), run::BUILT_IN) {
        Ok(asked) => asked,
        Err(usage) => usage.exit(),
    };
    if let Some(sentence) = cli::summary(&complaints) {
        eprintln!("millwright: {sentence}");
        return ExitCode::FAILURE;
    }
    let outcome = match command {
        Command::Crds(options) => crds::run(&options),
        #[cfg(feature = "dev")]
        Command::Dev(command) => match command {
            DevCommand::Demo(options) => demo::run(&options),
            DevCommand::Dev(options) => dev::run(&options),
            DevCommand::ApiServer(options) => serve::run(&options),
            DevCommand::VirtualCloud(options) => cloud::run(&options),
        },
        Command::Manager(flags) => run::run(&Servers::new(*flags, notes)),
        Command::MachineController(flags) => run::run(&Servers::new(*flags, notes)),
        Command::Run(flags) => run::run(&Servers::new(*flags, notes)),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("millwright: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and what led to it, in one line.
fn sentence(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in error.chain().map(ToString::to_string) {
        if !parts.last().is_some_and(|last| last.contains(&part)) {
            parts.push(part);
        }
    }
    parts.join(": ")
}
