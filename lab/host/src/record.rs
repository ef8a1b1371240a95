//! The record of a machine's creation.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use lab_host_common::budget::Resources;
use serde::{Deserialize, Serialize};

/// The record of a machine's creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// UID of the Machine; empty if the request had none.
    pub(crate) uid: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) size: Resources,
    pub(crate) root_image: PathBuf,
    pub(crate) bridge: String,
}
