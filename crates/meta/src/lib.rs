//! Object metadata and the types that objects consist of, for Kubernetes' own kinds and for the Machine API.
//!
//! This crate knows no kind. [`Object`] is what all objects have in common, [`ObjectMeta`] is their metadata, [`record!`] and [`kind!`]
//! define structs together with their JSON and their schema, and [`merge`] computes merge patches. Go's JSON conventions
//! are implemented here: a missing key, a `null` and a zero value are equal, and zero values are not written.
//!
//! No clock, no client, no I/O.

mod duration;
mod ids;
mod int_or_string;
pub mod kind;
pub mod merge;
mod metadata;
mod object;
mod quantity;
pub mod record;
mod selector;
mod selector_text;
mod small_map;
mod spec_duration;
mod text;
mod time;
pub mod wire;
mod word;

pub use duration::{DurationError, GoDuration};
pub use ids::Uid;
pub use int_or_string::{IntOrString, Rounding};
pub use metadata::{Annotations, ObjectMeta, OwnerReference};
pub use object::Object;
pub use quantity::Quantity;
pub use selector::{LabelSelector, Requirement, SelectorError};
pub use selector_text::SelectorTextError;
pub use small_map::{SmallMap, TextMap};
pub use spec_duration::SpecDuration;
pub use text::Text;
pub use time::Time;
