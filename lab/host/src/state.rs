//! The files of a machine.

use std::path::PathBuf;

use lab_host_common::files::read_json;
use lab_host_common::process::Process;
use lab_host_common::state::{Directory, directory, read_record, record};
use lab_host_common::{HostError, Scope};

use crate::record::Record;

/// The files of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) home: PathBuf,
}

impl Files {
    pub(crate) fn of(scope: &Scope, machine: &str) -> Self {
        Self { home: scope.home(machine) }
    }

    /// The process of its init; written when the machine is complete.
    pub(crate) fn init(&self) -> PathBuf {
        self.home.join("init.json")
    }

    /// The program that the init runs first.
    pub(crate) fn user_data(&self) -> PathBuf {
        self.home.join("user-data")
    }

    /// The log before the start of the user data.
    pub(crate) fn boot_log(&self) -> PathBuf {
        self.home.join("boot.log")
    }

    /// The folders of a machine: changes of its root, and two folders that must not be on an overlay.
    pub(crate) const FOLDERS: [&str; 5] = ["upper", "work", "root", "containerd", "kubelet"];

    /// The record of its creation; written last.
    pub(crate) fn record(&self) -> PathBuf {
        record(&self.home)
    }

    pub(crate) fn directory(&self) -> Directory {
        directory(&self.home)
    }

    pub(crate) fn read_record(&self) -> Result<Option<Record>, HostError> {
        read_record(&self.home)
    }

    /// An unreadable file counts as missing and is written again.
    pub(crate) fn read_init(&self) -> Option<Process> {
        read_json(&self.init()).ok().flatten()
    }
}
