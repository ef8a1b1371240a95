//! Object metadata and common types, for Kubernetes kinds and the Machine API.
//!
//! This crate defines no kinds. [`Object`] is the interface of all objects, [`ObjectMeta`] is their metadata, [`record!`] and [`kind!`]
//! define structs together with their JSON and their schema, and [`merge`] computes merge patches. The JSON conventions of Go
//! are implemented here: a missing key, a `null` and a zero value are equal, and zero values are not written.
//!
//! No clock, no client, no I/O.

mod duration;
mod error_chain;
mod event;
mod ids;
mod int_or_string;
pub mod kind;
pub mod merge;
mod metadata;
mod object;
mod presence;
mod quantity;
pub mod record;
mod selector;
mod selector_text;
mod small_map;
mod spec_duration;
mod text;
pub mod time;
pub mod wire;
mod word;

pub use duration::{DurationError, GoDuration};
pub use error_chain::error_chain;
pub use event::{Event, EventType};
pub use ids::Uid;
pub use int_or_string::{IntOrString, Rounding};
pub use metadata::{Annotations, ObjectMeta, OwnerReference};
pub use object::Object;
pub use presence::Presence;
pub use quantity::Quantity;
pub use selector::{LabelSelector, Requirement, SelectorError};
pub use selector_text::SelectorTextError;
pub use small_map::{SmallMap, TextMap};
pub use spec_duration::SpecDuration;
pub use text::Text;
pub use time::Time;
