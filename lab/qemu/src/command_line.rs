//! The command line of qemu.

use std::fmt::Write as _;

use lab_host_common::Scope;
use lab_host_common::identity::key;

use crate::provider::Boot;
use crate::spec::{Accelerator, Seed, Spec};

/// Files in a machine's directory, which is qemu's working directory, because the path of a socket is limited to 107
/// characters.
pub(crate) const DISK: &str = "disk.qcow2";
pub(crate) const SEED: &str = "seed.img";
pub(crate) const USER_DATA: &str = "user-data";
pub(crate) const SOCKET: &str = "qmp.sock";
const CONSOLE: &str = "console.log";

/// Returns the UUID of a machine, which is unique and follows from its name. Its process is found by the UUID.
pub(crate) fn uuid(scope: &Scope, machine: &str) -> String {
    let mut text = String::new();
    for (at, byte) in key(scope, machine).iter().enumerate() {
        let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        let _ = write!(text, "{dash}{byte:02x}"); // writing to a String cannot fail
    }
    text
}

/// Returns whether this is the command line of the process with this UUID.
pub(crate) fn is_of(command_line: &[u8], uuid: &str) -> bool {
    let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    words.windows(2).any(|pair| matches!(pair, [flag, value] if *flag == b"-uuid" && *value == uuid.as_bytes()))
}

/// Returns whole processors, because qemu has no fractions.
fn processors(cpu_millis: u64) -> u64 {
    cpu_millis.div_ceil(1000).max(1)
}

/// Returns the arguments of qemu for a machine.
pub(crate) fn arguments(spec: &Spec, machine: &str, uuid: &str, boot: Boot) -> Vec<String> {
    let mut line = Line(Vec::new());
    line.add("-name", machine);
    line.add("-uuid", uuid);
    for accelerator in match spec.accelerator {
        // qemu uses the first available one.
        Accelerator::Auto => ["kvm", "tcg,thread=multi"].as_slice(),
        Accelerator::Kvm => &["kvm"],
        Accelerator::Tcg => &["tcg,thread=multi"],
    } {
        line.add("-accel", accelerator);
    }
    line.add("-cpu", "max");
    line.add("-smp", &processors(spec.size.cpu_millis).to_string());
    line.add("-m", &format!("{}M", spec.size.memory >> 20));
    line.flag("-nodefaults");
    line.flag("-no-user-config");
    line.add("-display", "none");
    line.add("-serial", &format!("file:{CONSOLE}"));
    line.add("-qmp", &format!("unix:{SOCKET},server=on,wait=off"));
    line.add("-device", "virtio-rng-pci");
    line.add("-drive", &format!("file={DISK},if=virtio,format=qcow2,discard=unmap"));
    match spec.seed {
        Seed::CloudInit => line.add("-drive", &format!("file={SEED},if=virtio,format=raw,readonly=on")),
        Seed::Ignition => line.add("-fw_cfg", &format!("name=opt/com.coreos/config,file={USER_DATA}")),
    }
    line.add("-netdev", "user,id=net");
    line.add("-device", "virtio-net-pci,netdev=net");
    if let Some(kernel) = &spec.kernel {
        line.add("-kernel", &kernel.file.to_string_lossy());
        if let Some(initrd) = &kernel.initrd {
            line.add("-initrd", &initrd.to_string_lossy());
        }
        line.add("-append", &kernel.command_line);
    }
    // Restricts a guest that escapes from its devices. The other two options of this flag would prevent -daemonize.
    line.add("-sandbox", "on,obsolete=deny,resourcecontrol=deny");
    if boot == Boot::Paused {
        line.flag("-S");
    }
    // qemu returns when the machine runs, or with an error.
    line.flag("-daemonize");
    line.0
}

struct Line(Vec<String>);

impl Line {
    fn add(&mut self, flag: &str, value: &str) {
        self.0.extend([flag.to_owned(), value.to_owned()]);
    }

    fn flag(&mut self, flag: &str) {
        self.0.push(flag.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver_common::fault::Faults;
    use rstest::rstest;
    use serde_json::{Value, json};

    fn line(changes: &Value) -> String {
        let mut spec = json!({ "cluster": "c", "image": "/i", "cpu": "1500m", "memory": "1Gi" });
        for (key, value) in changes.as_object().unwrap() {
            spec[key] = value.clone();
        }
        arguments(&crate::spec::decode(&spec, Faults::default()).unwrap().1, "m", "id", Boot::Running).join(" ")
    }

    /// Shows HST-21.
    #[rstest]
    #[case(json!({}), "-accel kvm -accel tcg,thread=multi -cpu max -smp 2 -m 1024M ")]
    #[case(json!({ "accelerator": "kvm" }), "-uuid id -accel kvm -cpu")]
    #[case(json!({ "accelerator": "tcg" }), "-uuid id -accel tcg,thread=multi -cpu")]
    #[case(json!({}), "file=seed.img,if=virtio,format=raw,readonly=on")]
    #[case(json!({ "seed": "ignition" }), "-fw_cfg name=opt/com.coreos/config,file=user-data")]
    #[case(json!({ "kernel": "/k", "initrd": "/r", "kernelCommandLine": "console=ttyS0 quiet" }), "-kernel /k -initrd /r -append console=ttyS0 quiet -sandbox")]
    fn a_class_is_converted_to_a_command_line(#[case] changes: Value, #[case] part: &str) {
        assert!(line(&changes).contains(part), "{}", line(&changes));
    }

    /// Shows HST-22.
    #[test]
    fn a_process_is_found_by_the_uuid_of_its_machine() {
        let scope = |state: &str| Scope { cluster: "c".into(), state: state.into() };
        let id = uuid(&scope("/a"), "m");
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_ne!(id, uuid(&scope("/b"), "m"));
        let command_line = format!("qemu-system-x86_64\0-name\0m\0-uuid\0{id}\0-S\0");
        assert!(is_of(command_line.as_bytes(), &id));
        assert!(!is_of(format!("grep\0{id}\0").as_bytes(), &id));
        assert!(!is_of(command_line.as_bytes(), &uuid(&scope("/a"), "n")));
        assert!(!is_of(b"", &id));
    }
}
