//! Tests of the binary: its output, its exit codes, its waits and its signals.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints exempt tests, but not functions shared by tests"
)]

mod banner;
#[cfg(feature = "aws")]
mod built_in;
mod cloud;
mod demo;
mod dev;
mod driver_check;
mod every_command;
mod flags;
mod http;
#[cfg(feature = "inspect")]
mod inspect;
mod program;
mod serving;
mod starting;
mod terminal;
#[cfg(feature = "otel")]
mod traces;
#[cfg(feature = "aws")]
mod tutorial;
