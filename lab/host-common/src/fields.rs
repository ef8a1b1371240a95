//! Fields that the MachineClasses of these drivers have in common.

use std::path::{Component, Path, PathBuf};

use api::Quantity;
use driver::DriverError;
use driver_common::fault::Faults;
use driver_common::spec::Object;
use serde_json::Value;

use crate::budget::{Budget, Resources};
use crate::identity::name_problem;
use crate::state::Scope;

/// Minimum of the kernel: a millisecond of every hundred.
const LEAST_CPU_MILLIS: u64 = 10;
/// Minimum memory for the start of an init.
const LEAST_MEMORY: u64 = 16 << 20;

/// Returns the cluster and the state directory. `by_default` is the state directory if the class sets none.
pub fn scope(object: &Object<'_>, by_default: &str, faults: &mut Faults) -> Scope {
    let cluster = object.text("cluster", faults).unwrap_or_default();
    match name_problem(&cluster) {
        Some(_) if cluster.is_empty() => {
            faults.required(object.path("cluster"), "distinguishes the machines of this cluster from those of others");
        }
        Some(problem) => faults.invalid(object.path("cluster"), cluster.as_str(), problem),
        None => {}
    }
    let state = path(object, "stateDirectory", faults, false).unwrap_or_else(|| PathBuf::from(by_default));
    Scope { cluster, state }
}

/// Returns a path on the host.
pub fn path(object: &Object<'_>, key: &str, faults: &mut Faults, needed: bool) -> Option<PathBuf> {
    let Some(text) = object.text(key, faults).filter(|text| !text.is_empty()) else {
        if needed {
            faults.required(object.path(key), "a path on the host");
        }
        return None;
    };
    if let Some(problem) = path_problem(Path::new(&text)) {
        faults.invalid(object.path(key), text.as_str(), problem);
    }
    Some(PathBuf::from(text))
}

/// Returns a quantity, if it is set.
pub fn quantity(
    object: &Object<'_>,
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&Quantity) -> Result<u64, &'static str>,
) -> Option<u64> {
    let value = object.get(key)?;
    let amount =
        serde_json::from_value::<Quantity>(value.clone()).map_err(|_| "must be an amount, such as 500m or 1Gi");
    match amount.and_then(|amount| read(&amount)) {
        Ok(amount) => Some(amount),
        Err(problem) => {
            faults.invalid(object.path(key), value, problem);
            None
        }
    }
}

/// The same for a required field.
pub fn required(
    object: &Object<'_>,
    key: &str,
    faults: &mut Faults,
    read: impl FnOnce(&Quantity) -> Result<u64, &'static str>,
) -> u64 {
    if object.get(key).is_none() {
        faults.required(object.path(key), "the limit of a machine");
    }
    quantity(object, key, faults, read).unwrap_or_default()
}

/// Returns the scope of a MachineClass whose other fields may be invalid.
pub fn scope_of(spec: &Value, by_default: &str) -> Result<Scope, DriverError> {
    let mut faults = Faults::default();
    let object = Object::new(spec, "providerSpec", &mut faults);
    let scope = scope(&object, by_default, &mut faults);
    faults.or("", scope)
}

/// Returns the limits of a machine.
pub fn size(object: &Object<'_>, faults: &mut Faults) -> Resources {
    Resources {
        cpu_millis: required(object, "cpu", faults, cpu_millis),
        memory: required(object, "memory", faults, bytes),
    }
}

/// Returns the limits of all machines together.
pub fn budget(object: &Object<'_>, faults: &mut Faults) -> Budget {
    match object.object("hostBudget", faults) {
        None => Budget::default(),
        Some(budget) => Budget {
            cpu_millis: quantity(&budget, "cpu", faults, cpu_millis),
            memory: quantity(&budget, "memory", faults, bytes),
        },
    }
}

/// Thousandths of a core.
pub fn cpu_millis(amount: &Quantity) -> Result<u64, &'static str> {
    let millis = amount.thousandths().and_then(|millis| u64::try_from(millis).ok());
    millis
        .filter(|millis| *millis >= LEAST_CPU_MILLIS)
        .ok_or("must be an amount of CPU, 10m or more, such as 500m or 2")
}

/// Bytes.
pub fn bytes(amount: &Quantity) -> Result<u64, &'static str> {
    let bytes = amount.thousandths().and_then(|thousandths| u64::try_from(thousandths / 1000).ok());
    bytes
        .filter(|bytes| *bytes >= LEAST_MEMORY)
        .ok_or("must be an amount of memory, 16Mi or more, such as 512Mi or 2Gi")
}

/// Returns why a path cannot be mounted. The options of an overlay are one text, in which these characters are
/// separators.
pub fn path_problem(path: &Path) -> Option<&'static str> {
    let Some(text) = path.to_str() else { return Some("must be text") };
    if !path.is_absolute() {
        Some("must be an absolute path")
    } else if path.components().any(|part| part == Component::ParentDir) {
        Some("must not contain '..'")
    } else if text
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || matches!(c, ':' | ',' | '\\' | '|' | '*' | '?' | '['))
    {
        Some("must not contain white space, ':', ',', '|', '\\' or characters that a shell expands")
    } else {
        None
    }
}
