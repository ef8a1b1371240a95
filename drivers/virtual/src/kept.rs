//! A VM as a file can hold it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::vm::Vm;

/// The data of a VM that a later cloud needs to restore it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptVm {
    /// Its name.
    pub id: String,
    /// The machine it was made for.
    pub machine: Option<String>,
    /// Namespace and name of its class.
    pub class: String,
    /// What was asked for, as a class says it.
    pub provider_spec: Value,
    /// When it was made.
    pub created_at: Timestamp,
}

impl KeptVm {
    pub(crate) fn of(vm: &Vm) -> Self {
        Self {
            id: vm.id.to_string(),
            machine: vm.machine.as_ref().map(|machine| machine.as_str().to_owned()),
            class: vm.class.clone(),
            provider_spec: vm.spec.encode(),
            created_at: vm.created_at,
        }
    }
}
