//! The binary, as a person or a kubelet starts it: its output, its exit code, its waits, its signals.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints spare tests, but not the functions that tests share"
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
mod operator;
mod program;
mod serving;
mod starting;
mod terminal;
#[cfg(feature = "otel")]
mod traces;
#[cfg(feature = "aws")]
mod tutorial;
