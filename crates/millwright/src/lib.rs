//! Millwright as a program: commands, flags, wiring. And as the program of a driver: [`run`](fn@run) with everything in one process,
//! [`serve`](fn@serve) with the driver alone, behind the driver protocol.
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
#[cfg(feature = "openstack")]
pub mod openstack;
#[cfg(feature = "inspect")]
mod operator;
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
use cli::{Asked, Command, DriverCommand, Servers};

pub use built_in::Host;
pub use driver;
pub use driver_process::serve;
pub use driver_remote::About;
pub use other_clusters::OtherClusters;

use built_in::BuiltIn;

/// Version and commit of Millwright, as `--version` tells them; for programs that are released with it.
pub const VERSION: &str = build_info::LONG;

/// The program that we ship. It ends when this returns.
pub fn main() -> ExitCode {
    program(built_in::ours())
}

/// The same program with this driver in it, which serves every class unless `--driver-endpoint` names another: the whole `main` of a driver's
/// program, as `app.Run` is for a provider of MCM.
pub fn run(driver: impl driver::Driver, about: About) -> ExitCode {
    run_with(about, |_| Arc::new(driver))
}

/// The same for a driver that uses something of the process: its clock, its tasks, a client for the cluster that nodes join. It is made inside the
/// async runtime, once API servers have answered, and only in a process that looks after machines.
pub fn run_with(about: About, make: impl FnOnce(Host) -> Arc<dyn driver::Driver> + Send + 'static) -> ExitCode {
    let About { name, version } = about;
    program(vec![BuiltIn::own(name.clone(), move |host| {
        tracing::info!(name, version, "the driver is in this process");
        make(host)
    })])
}

#[allow(clippy::print_stderr, reason = "the last word to the person who called, when there may be no log yet")]
fn program(built_in: Vec<BuiltIn>) -> ExitCode {
    let named: Vec<_> = built_in.iter().map(BuiltIn::named).collect();
    let Asked { command, notes, complaints } = match cli::read(std::env::args_os(), &named) {
        Ok(asked) => asked,
        Err(usage) => usage.exit(),
    };
    if let Some(sentence) = cli::summary(&complaints) {
        eprintln!("millwright: {sentence}");
        return ExitCode::FAILURE;
    }
    let outcome = match command {
        Command::Crds(options) => crds::run(&options),
        Command::Driver(DriverCommand::Check(options)) => driver_check::run(&options),
        #[cfg(feature = "inspect")]
        Command::Operator(command) => operator::run(&command),
        #[cfg(feature = "dev")]
        Command::Dev(command) => match command {
            DevCommand::Demo(options) => demo::run(&options),
            DevCommand::Dev(options) => dev::run(&options),
            DevCommand::ApiServer(options) => api_server::run(&options),
            DevCommand::Sim(options) => simulate::run(&options),
            DevCommand::VirtualCloud(options) => virtual_cloud::run(&options),
            DevCommand::Up(options) => up::run(&options),
            DevCommand::Down(options) => up::take_down(&options),
        },
        Command::Manager(flags) => run::run(&Servers::new(*flags, notes), built_in),
        Command::MachineController(flags) => run::run(&Servers::new(*flags, notes), built_in),
        Command::Run(flags) => run::run(&Servers::new(*flags, notes), built_in),
    };
    concluded("millwright", outcome)
}

/// The exit code of a program, after its last sentence.
#[allow(clippy::print_stderr, reason = "the last word to the person who called, when there may be no log yet")]
fn concluded(program: &str, outcome: anyhow::Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("{program}: {}", sentence(&error));
        ExitCode::FAILURE
    })
}

/// An error and what led to it, fit for a terminal.
fn sentence(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in error.chain().map(ToString::to_string) {
        if !parts.last().is_some_and(|last| last.contains(&part)) {
            parts.push(part);
        }
    }
    // Errors quote names and fields of objects. Line breaks remain: some errors show a part of a file.
    parts.join(": ").split('\n').map(api::printable::printable).collect::<Vec<_>>().join("\n")
}
