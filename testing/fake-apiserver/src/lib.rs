//! A Kubernetes API server in memory.
//!
//! It serves the demo, the tests and the simulation: a real client talks to it, in the same process as a [tower] service or on
//! loopback over TLS, and cannot tell it from the real thing in anything that we rely on. It must be *right*, not big: what it
//! does, it does as the reference does; what it does not do, it refuses with a sentence.
//!
//! Known to differ from the reference, on purpose or until somebody needs it: there are no managed fields and no
//! server-side apply; of the built-in kinds only Pods are defaulted, and new Nodes get no taint; Events do
//! not expire; a complaint about metadata is listed once where the reference lists it twice; decoding errors say what was
//! wrong, but not in Go's words, and never repeat the body; protobuf is read, but every answer is JSON.
//!
//! Nothing in it is left to chance. Time comes from a closure, names from a seed, and every request is one step under one
//! lock, so the same requests in the same order give the same cluster. Under tokio's paused clock a day passes in
//! milliseconds.

mod address;
mod admission;
mod catalog;
mod conditions;
mod decode;
mod discovery;
mod failure;
pub mod faults;
mod garbage;
mod kinds;
pub mod ledger;
pub mod loopback;
mod meta;
mod names;
mod observer;
mod openapi;
pub mod patch;
mod protection;
mod protobuf;
mod query;
mod render;
mod reply;
mod resource;
mod reviews;
pub mod schema;
pub mod selector;
mod server;
mod service;
mod state;
mod store;
mod strategic;
mod table;
mod termination;
mod types;
mod validate;
mod verbs;
mod watch;

pub use failure::Failure;
pub use observer::{Author, Observation, Observer};
pub use reply::{Body, ConnectionBroken};
pub use schema::Cause;
pub use server::{Now, Options, Server};
pub use service::{BoxError, Service};
pub use store::{Change, ChangeKind, Compacted, History, Key};
