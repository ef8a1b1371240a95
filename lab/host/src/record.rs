//! What is written down of a machine: how it was made.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use lab_host_common::budget::Resources;
use serde::{Deserialize, Serialize};

/// How a machine was made. A file of another version is not read: nobody has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// Of the Machine it was made for; empty if the request had none.
    pub(crate) uid: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) size: Resources,
    pub(crate) root_image: PathBuf,
    pub(crate) bridge: String,
}
