//! Millwright with the AWS driver built in, for `cargo xtask e2e aws`. It is an example, so that building it does not
//! change the `millwright` program of other suites.

use std::process::ExitCode;

fn main() -> ExitCode {
    millwright::main()
}
