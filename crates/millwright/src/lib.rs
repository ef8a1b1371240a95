//! The Millwright program: commands, flags and wiring. Also a library for driver programs: [`run`](fn@run) runs the
//! controllers with a driver in one process, [`serve_driver`] runs only a driver, behind the driver protocol.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use millwright::About;
//! use millwright::driver::Driver;
//!
//! fn program_of(my_cloud: impl Driver) -> ExitCode {
//!     millwright::run(my_cloud, About { name: "mycloud".to_owned(), version: "1.0.0".to_owned() })
//! }
//! ```

#[cfg(feature = "dev")]
mod api_server;
#[cfg(feature = "aws")]
pub mod aws;
mod build_info;
mod built_in;
mod cli;
mod crds;
#[cfg(feature = "dev")]
mod demo;
#[cfg(feature = "dev")]
mod dev;
mod drain_flags;
mod driver_check;
mod driver_process;
#[cfg(feature = "failpoints")]
mod failpoints;
mod http;
#[cfg(feature = "inspect")]
mod inspect_commands;
#[cfg(feature = "openstack")]
pub mod openstack;
mod other_clusters;
mod print;
mod run;
#[cfg(feature = "dev")]
mod simulate;
mod traces;
#[cfg(feature = "inspect")]
mod ui;
#[cfg(feature = "dev")]
mod up;
#[cfg(feature = "dev")]
mod virtual_cloud;

use std::process::ExitCode;
use std::sync::Arc;

#[cfg(feature = "dev")]
use cli::DevCommand;
use cli::{Command, DriverCommand, Invocation, Servers};

pub use built_in::Host;
pub use driver;
pub use driver_process::serve_driver;
pub use driver_remote::About;
pub use other_clusters::OtherClusters;

use built_in::BuiltIn;

/// Version and commit of Millwright, as shown by `--version`. For programs that are released with it.
pub const VERSION: &str = build_info::LONG;

/// Runs the `millwright` program. The process ends when this function returns.
pub fn main() -> ExitCode {
    program(built_in::millwright_drivers())
}

/// Runs the same program with this driver built in. The driver handles all MachineClasses unless `--driver-endpoint`
/// is set. This is the whole `main` of a driver program, as `app.Run` is for a provider of MCM.
pub fn run(driver: impl driver::Driver, about: About) -> ExitCode {
    run_with(about, |_| Arc::new(driver))
}

/// Like [`run`](fn@run), for a driver that uses resources of the process, such as its clock, its tasks or a client for
/// the target cluster. The driver is created inside the async runtime after the API servers have responded, and only in
/// a process with the machine controller.
pub fn run_with(about: About, make: impl FnOnce(Host) -> Arc<dyn driver::Driver> + Send + 'static) -> ExitCode {
    let About { name, version } = about;
    program(vec![BuiltIn::for_program(name.clone(), move |host| {
        tracing::info!(name, version, "created built-in driver");
        make(host)
    })])
}

#[allow(clippy::print_stderr, reason = "an error message for the user; logging may not be set up yet")]
fn program(built_in: Vec<BuiltIn>) -> ExitCode {
    let named: Vec<_> = built_in.iter().map(BuiltIn::for_flags).collect();
    let Invocation { command, notes, problems } = match cli::parse(std::env::args_os(), &named) {
        Ok(invocation) => invocation,
        Err(usage) => usage.exit(),
    };
    if let Some(sentence) = cli::summary(&problems) {
        eprintln!("millwright: {sentence}");
        return ExitCode::FAILURE;
    }
    let outcome = match command {
        Command::Crds(options) => crds::run(&options),
        Command::Driver(DriverCommand::Check(options)) => driver_check::run(&options),
        #[cfg(feature = "inspect")]
        Command::Inspect(command) => inspect_commands::run(&command),
        #[cfg(feature = "dev")]
        Command::Dev(command) => match command {
            DevCommand::Demo(options) => demo::run(&options),
            DevCommand::Dev(options) => dev::run(&options),
            DevCommand::ApiServer(options) => api_server::run(&options),
            DevCommand::Sim(options) => simulate::run(&options),
            DevCommand::VirtualCloud(options) => virtual_cloud::run(&options),
            DevCommand::Up(options) => up::run(&options),
            DevCommand::Down(options) => up::down(&options),
        },
        Command::Manager(flags) => run::run(&Servers::new(*flags, notes), built_in),
        Command::MachineController(flags) => run::run(&Servers::new(*flags, notes), built_in),
        Command::Run(flags) => run::run(&Servers::new(*flags, notes), built_in),
    };
    exit_code("millwright", outcome)
}

/// Returns the exit code of a program, and prints its error.
#[allow(clippy::print_stderr, reason = "an error message for the user; logging may not be set up yet")]
fn exit_code(program: &str, outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("{program}: {}", sentence(&error));
        ExitCode::FAILURE
    })
}

/// Returns the exit code of a process that a signal ends.
fn exit_code_of(signal: runtime::signals::Signal) -> ExitCode {
    ExitCode::from(u8::try_from(signal.exit_code()).unwrap_or(1))
}

/// Returns an error with its causes as one printable text.
fn sentence(error: &anyhow::Error) -> String {
    // Errors quote names and fields of objects, so escape control characters. Line breaks remain, because some errors
    // show a part of a file.
    meta::error_chain(error.as_ref()).split('\n').map(api::printable::printable).collect::<Vec<_>>().join("\n")
}
