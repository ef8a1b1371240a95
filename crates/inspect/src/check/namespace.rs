//! Checks of the namespace as a whole.

use api::Object;

use super::Findings;
use crate::Unreadable;
use crate::leader::ELECT;

pub(super) fn check(found: &mut Findings<'_>) {
    let snapshot = found.input.snapshot;
    for lease in &snapshot.leases {
        if let Some(vacancy) = lease.missing_leader(snapshot.now) {
            found.add(
                &format!("lease/{}", lease.component.lease()),
                "spec.renewTime",
                format!("no leader: {vacancy}"),
                ELECT,
            );
        }
    }
    unreadable(found, "machinedeployment", &snapshot.deployments.unreadable);
    unreadable(found, "machineset", &snapshot.sets.unreadable);
    unreadable(found, "machine", &snapshot.machines.unreadable);
    unreadable(found, "machineclass", &snapshot.classes.unreadable);
    claimed_twice(found);
    shared_vms(found);
    for (kind, why) in [
        ("classes", &snapshot.classes.refused),
        ("nodes", snapshot.cluster().map_or(&None, |cluster| &cluster.nodes.refused)),
        (
            "budgets",
            snapshot.cluster().and_then(|cluster| cluster.budgets.as_ref()).map_or(&None, |kind| &kind.refused),
        ),
    ] {
        if let Some(why) = why {
            found.not_checked(format!("{kind}: {why}"));
        }
    }
}

fn unreadable(found: &mut Findings<'_>, kind: &str, objects: &[Unreadable]) {
    for object in objects {
        let problem = format!("it cannot be decoded; it is counted, but not reconciled: {}", object.error);
        let fix = "fix the field: the current CRD rejects its value";
        found.add(&format!("{kind}/{}", object.name), "(whole object)", problem, fix);
    }
}

/// Checks for Machines with the same Node.
fn claimed_twice(found: &mut Findings<'_>) {
    let machines = &found.input.snapshot.machines.readable;
    for machine in machines {
        let Some(node) = machine.node_name() else { continue };
        let other =
            machines.iter().find(|other| other.name() < machine.name() && other.node_name().as_ref() == Some(&node));
        if let Some(other) = other {
            let problem = format!(
                "machine/{} also names Node {node:?}; if either is deleted, the Node is not changed",
                other.name()
            );
            found.add(
                &format!("machine/{}", machine.name()),
                "metadata.labels.node",
                problem,
                "correct the label of the Machine that does not run on it",
            );
        }
    }
}

/// Checks for Machines with the same VM.
fn shared_vms(found: &mut Findings<'_>) {
    let snapshot = found.input.snapshot;
    for machine in &snapshot.machines.readable {
        let vm = &machine.spec.provider_id;
        let other = snapshot.machines_with_vm(vm.as_str()).iter().find(|other| other.name() < machine.name());
        if let Some(other) = other {
            let problem = format!(
                "machine/{} also names VM {vm}; if either is deleted, the VM stays with the other one",
                other.name()
            );
            let fix = "delete the Machine that was created by mistake";
            found.add(&format!("machine/{}", machine.name()), "spec.providerID", problem, fix);
        }
    }
}
