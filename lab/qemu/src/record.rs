//! What is written down of a machine: how it was made.

use std::path::PathBuf;

use lab_host_common::budget::Resources;
use serde::{Deserialize, Serialize};

/// How a machine was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// Of the Machine it was made for; empty if the request had none.
    pub(crate) uid: String,
    pub(crate) size: Resources,
    pub(crate) image: PathBuf,
}
