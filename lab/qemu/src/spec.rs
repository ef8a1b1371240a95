//! The provider spec of a MachineClass.

use std::path::PathBuf;
use std::time::Duration;

use driver::DriverError;
use driver_common::fault::Faults;
use driver_common::spec::Object;
use lab_host_common::budget::{Budget, Resources};
use lab_host_common::requests::Requests;
use lab_host_common::{Scope, fields};
use serde_json::Value;

/// The value of `provider` in MachineClasses of this driver.
pub const PROVIDER: &str = "qemu";

/// Default state directory.
const STATE_DIRECTORY: &str = "/var/lib/millwright/qemu";

/// Requests of this provider.
pub(crate) const REQUESTS: Requests = Requests { provider: PROVIDER, state: STATE_DIRECTORY };
/// Default timeout for the shutdown of a machine, whose pods have been evicted before.
const POWER_OFF_SECONDS: i32 = 30;

/// The configuration of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Backing file of the disks. It is never written.
    pub(crate) image: PathBuf,
    pub(crate) image_format: &'static str,
    /// Size of the machine's disk in bytes; the default is that of the image.
    pub(crate) disk_size: Option<u64>,
    pub(crate) size: Resources,
    pub(crate) budget: Budget,
    pub(crate) accelerator: Accelerator,
    pub(crate) seed: Seed,
    pub(crate) kernel: Option<Kernel>,
}

/// Accelerator of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// KVM if the kernel supports it, otherwise TCG.
    Auto,
    Kvm,
    /// Emulation by qemu: works everywhere, but is many times slower.
    Tcg,
}

/// How the machine receives its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seed {
    /// On a disk, for cloud-init.
    CloudInit,
    /// In the firmware configuration, for Ignition.
    Ignition,
}

/// A kernel that is booted instead of the image's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) file: PathBuf,
    pub(crate) initrd: Option<PathBuf>,
    pub(crate) command_line: String,
}

/// Returns the shutdown timeout of a MachineClass whose other fields may be invalid.
pub(crate) fn power_off_timeout(spec: &Value) -> Duration {
    let mut faults = Faults::default();
    let object = Object::new(spec, "providerSpec", &mut faults);
    let seconds = object.int32("powerOffSeconds", &mut faults).unwrap_or(POWER_OFF_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Decodes a provider spec. All errors are reported together.
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

/// Returns one of these values; the first one if the field is not set.
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
            faults.required(object.path("kernel"), "the kernel for initrd and kernelCommandLine");
        }
        return None;
    };
    Some(Kernel { file, initrd, command_line })
}

#[cfg(test)]
mod tests;
