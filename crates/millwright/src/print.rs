//! Output to stdout.
//!
//! `println!` panics if stdout is closed, as behind `| head -1`. The demo and `dev` print while the controllers work,
//! so output errors must not end the process.

use std::fmt::Display;
use std::io::Write;

/// Prints a line. Errors are ignored.
pub(crate) fn line(text: impl Display) {
    let _ignored = writeln!(std::io::stdout(), "{text}");
}
