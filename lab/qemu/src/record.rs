//! The record of a machine's creation.

use std::path::PathBuf;

use lab_host_common::budget::Resources;
use serde::{Deserialize, Serialize};

/// The record of a machine's creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// UID of the Machine; empty if the request had none.
    pub(crate) uid: String,
    pub(crate) size: Resources,
    pub(crate) image: PathBuf,
}
