//! What a MachineClass of this provider says.

use std::path::PathBuf;
use std::time::Duration;

use driver::DriverError;
use driver_common::fault::Faults;
use driver_common::spec::Object;
use lab_host_common::budget::{Budget, Resources};
use lab_host_common::requests::Requests;
use lab_host_common::{Scope, fields};
use serde_json::Value;

/// What a `MachineClass` must say in `provider` to be ours.
pub const PROVIDER: &str = "qemu";

/// Where machines are kept if the class does not say.
const STATE_DIRECTORY: &str = "/var/lib/millwright/qemu";

/// Where to look, from a class that may be wrong otherwise.
pub(crate) const REQUESTS: Requests = Requests { provider: PROVIDER, state: STATE_DIRECTORY };
/// How long a machine that is asked to end may take. Its pods are gone by then.
const POWER_OFF_SECONDS: i32 = 30;

/// How a machine is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// What disks are overlays of. It is never written to.
    pub(crate) image: PathBuf,
    pub(crate) image_format: &'static str,
    /// Of the machine's disk, in bytes; that of the image if not said.
    pub(crate) disk_size: Option<u64>,
    pub(crate) size: Resources,
    pub(crate) budget: Budget,
    pub(crate) accelerator: Accelerator,
    pub(crate) seed: Seed,
    pub(crate) kernel: Option<Kernel>,
}

/// What runs the machine's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor where the kernel offers it, else qemu.
    Auto,
    Kvm,
    /// qemu itself: everywhere, and many times slower.
    Tcg,
}

/// How the machine finds its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// On a disk, as cloud-init looks for it.
    CloudInit,
    /// In the firmware's configuration, as Ignition looks for it.
    Ignition,
}

/// What is booted instead of what the image has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) file: PathBuf,
    pub(crate) initrd: Option<PathBuf>,
    pub(crate) command_line: String,
}

/// How long to wait for a machine that was asked to end, from a class that may be wrong otherwise.
pub(crate) fn power_off_timeout(spec: &Value) -> Duration {
    let mut faults = Faults::default();
    let object = Object::new(spec, "providerSpec", &mut faults);
    let seconds = object.int32("powerOffSeconds", &mut faults).unwrap_or(POWER_OFF_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// All of a class; whatever is wrong is told at once.
pub(crate) fn decode(spec: &Value, mut faults: Faults) -> Result<(Scope, Spec), DriverError> {
    let faults = &mut faults;
    let object = &Object::new(spec, "providerSpec", faults);
    let scope = fields::scope(object, STATE_DIRECTORY, faults);
    let (qcow2, raw) = (("qcow2", "qcow2"), [("raw", "raw")]);
    let (auto, others) = (("auto", Accelerator::Auto), [("kvm", Accelerator::Kvm), ("tcg", Accelerator::Tcg)]);
    let (cloud_init, ignition) = (("cloud-init", Seed::CloudInit), [("ignition", Seed::Ignition)]);
    if let Some(seconds) = object.int32("powerOffSeconds", faults).filter(|seconds| *seconds < 0) {
        faults.invalid(object.path("powerOffSeconds"), seconds, "must not be negative");
    }
    let spec = Spec {
        image: fields::path(object, "image", faults, true).unwrap_or_default(),
        image_format: choice(object, "imageFormat", qcow2, &raw, faults),
        disk_size: fields::quantity(object, "diskSize", faults, fields::bytes),
        size: fields::size(object, faults),
        budget: fields::budget(object, faults),
        accelerator: choice(object, "accelerator", auto, &others, faults),
        seed: choice(object, "seed", cloud_init, &ignition, faults),
        kernel: kernel(object, faults),
    };
    std::mem::take(faults).or("", (scope, spec))
}

/// One of these; the first of them if the class does not say.
fn choice<T: Copy>(object: &Object<'_>, key: &str, first: (&str, T), others: &[(&str, T)], faults: &mut Faults) -> T {
    let Some(text) = object.text(key, faults).filter(|text| !text.is_empty()) else { return first.1 };
    let all = || std::iter::once(&first).chain(others);
    let found = all().find(|(name, _)| *name == text);
    if found.is_none() {
        let names: Vec<&str> = all().map(|(name, _)| *name).collect();
        faults.unsupported(object.path(key), text.as_str(), &names);
    }
    found.map_or(first.1, |(_, value)| *value)
}

fn kernel(object: &Object<'_>, faults: &mut Faults) -> Option<Kernel> {
    let initrd = fields::path(object, "initrd", faults, false);
    let command_line = object.text("kernelCommandLine", faults).unwrap_or_default();
    let Some(file) = fields::path(object, "kernel", faults, false) else {
        if initrd.is_some() || !command_line.is_empty() {
            faults.required(object.path("kernel"), "what initrd and kernelCommandLine are for");
        }
        return None;
    };
    Some(Kernel { file, initrd, command_line })
}

#[cfg(test)]
mod tests;
