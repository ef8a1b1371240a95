//! Millwright with the driver of EC2 built in, as the image has it, for `cargo xtask e2e aws`: an example, so that building it does not change the
//! `millwright` that other suites run.

use std::process::ExitCode;

fn main() -> ExitCode {
    millwright::main()
}
