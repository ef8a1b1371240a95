//! What is printed for the person or program that called.
//!
//! Not `println!`, which panics when nobody reads any more, as behind `| head -1`: the demo and `dev` print in the middle of the
//! controllers' work, and nothing that was asked for depends on being read.

use std::fmt::Display;
use std::io::Write;

/// Prints a line, if anybody still reads.
pub(crate) fn line(text: impl Display) {
    let _unread = writeln!(std::io::stdout(), "{text}");
}
