//! Permissions of the controllers, and the effect of a missing one.
//!
//! A missing permission may show late, for example on the first drain, so `check` reviews all of them. The table is
//! equal to the roles in `deploy/rbac`; a test compares them. `cargo xtask rbac` compares the roles with the requests.

use crate::check::Finding;
use crate::leader::Component;

/// A permission of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Component.
    pub component: Component,
    /// Cluster and namespace.
    pub scope: Scope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, with the subresource after a slash.
    pub resource: &'static str,
    /// Name of the object; empty for all.
    pub name: &'static str,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Effect if the permission is missing.
    pub without: &'static str,
}

/// Where a permission applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The namespace of the Machines.
    Machines,
    /// All namespaces of the target cluster.
    Target,
    /// This namespace of the target cluster.
    TargetNamespace(&'static str),
}

use Component::{MachineController, Manager};

const MACHINES: &str = "machine.sapcloud.io";
const LEASES: &str = "coordination.k8s.io";

const fn permission(
    component: Component,
    scope: Scope,
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    without: &'static str,
) -> Permission {
    Permission { component, scope, group, resource, name: "", verbs, without }
}

/// All permissions.
pub const PERMISSIONS: &[Permission] = &[
    permission(
        Manager,
        Scope::Machines,
        (MACHINES, "machines"),
        &["get", "list", "watch", "create", "patch", "delete"],
        NO_SETS,
    ),
    permission(
        Manager,
        Scope::Machines,
        (MACHINES, "machinesets"),
        &["get", "list", "watch", "create", "patch", "delete"],
        NO_SETS,
    ),
    permission(Manager, Scope::Machines, (MACHINES, "machinedeployments"), &["get", "list", "watch", "patch"], NO_SETS),
    permission(Manager, Scope::Machines, (MACHINES, "machinesets/status"), &["patch"], NO_STATUS),
    permission(Manager, Scope::Machines, (MACHINES, "machinedeployments/status"), &["patch"], NO_STATUS),
    permission(Manager, Scope::Machines, ("", "events"), &["create", "patch"], NO_EVENTS),
    permission(Manager, Scope::Machines, (LEASES, "leases"), &["create"], NO_LEADER),
    Permission {
        name: api::names::MANAGER_LEASE,
        ..permission(Manager, Scope::Machines, (LEASES, "leases"), &["get", "update"], NO_LEADER)
    },
    permission(
        Manager,
        Scope::Target,
        ("", "nodes"),
        &["list", "watch", "patch"],
        "Nodes are not marked during a rollout, and their state is unknown",
    ),
    permission(
        MachineController,
        Scope::Machines,
        (MACHINES, "machines"),
        &["get", "list", "watch", "patch", "delete"],
        NO_MACHINES,
    ),
    permission(MachineController, Scope::Machines, (MACHINES, "machines/status"), &["patch"], NO_STATUS),
    permission(
        MachineController,
        Scope::Machines,
        (MACHINES, "machineclasses"),
        &["list", "watch", "patch"],
        NO_MACHINES,
    ),
    permission(
        MachineController,
        Scope::Machines,
        ("", "secrets"),
        &["get", "list", "watch", "patch"],
        "drivers get no credentials, so no Machine is created or deleted",
    ),
    permission(MachineController, Scope::Machines, ("", "events"), &["create", "patch"], NO_EVENTS),
    permission(MachineController, Scope::Machines, (LEASES, "leases"), &["create"], NO_LEADER),
    Permission {
        name: api::names::MACHINE_CONTROLLER_LEASE,
        ..permission(MachineController, Scope::Machines, (LEASES, "leases"), &["get", "update"], NO_LEADER)
    },
    permission(
        MachineController,
        Scope::Target,
        ("", "nodes"),
        &["get", "list", "watch", "patch", "delete"],
        "joining Nodes are not detected, Nodes are not cordoned and not deleted",
    ),
    permission(
        MachineController,
        Scope::Target,
        ("", "nodes/status"),
        &["patch"],
        "conditions of drains and updates are not set, and drains wait",
    ),
    permission(
        MachineController,
        Scope::Target,
        ("", "pods"),
        &["list", "watch", "delete"],
        "a drain finds no pods and waits for its timeout",
    ),
    permission(
        MachineController,
        Scope::Target,
        ("", "pods/eviction"),
        &["create"],
        "a drain evicts no pods and waits for its timeout",
    ),
    permission(MachineController, Scope::Target, ("", "persistentvolumes"), &["list"], NO_DISKS),
    permission(MachineController, Scope::Target, ("", "persistentvolumeclaims"), &["list"], NO_DISKS),
    permission(
        MachineController,
        Scope::Target,
        ("policy", "poddisruptionbudgets"),
        &["list", "watch"],
        "evictions refused by a PodDisruptionBudget are retried only on a timer",
    ),
    permission(
        MachineController,
        Scope::Target,
        ("storage.k8s.io", "volumeattachments"),
        &["list", "watch", "delete"],
        "detaching volumes are checked only on a timer, and volumes of failed Nodes are not detached",
    ),
    permission(
        MachineController,
        Scope::TargetNamespace("kube-system"),
        ("", "secrets"),
        &["get", "create", "delete"],
        "Machines whose user data needs a bootstrap token are not created",
    ),
    permission(MachineController, Scope::TargetNamespace("default"), ("", "events"), &["create", "patch"], NO_EVENTS),
];

const NO_SETS: &str = "MachineSets and MachineDeployments are not reconciled";
const NO_MACHINES: &str = "Machines are not reconciled";
const NO_STATUS: &str = "the status is not updated, and what depends on it does not progress";
const NO_EVENTS: &str = "Events are dropped";
const NO_LEADER: &str = "no leader is elected, so nothing is reconciled";
const NO_DISKS: &str = "a drain does not wait for the volumes of evicted pods";

impl Permission {
    /// Returns the verbs that replace a verb: instead of a patch, the object is read and updated.
    #[must_use]
    pub fn instead_of(verb: &str) -> &'static [&'static str] {
        if verb == "patch" { &["get", "update"] } else { &[] }
    }

    /// Returns the finding that `account` lacks a verb.
    #[must_use]
    pub fn lacking(&self, verb: &str, account: &str, namespace: &str) -> Finding {
        let Self { component, scope, group, resource, name, without, .. } = self;
        let kind = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        let which = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let (scope, folder) = match scope {
            Scope::Machines => (format!("in namespace {namespace:?}"), "control"),
            Scope::Target => ("in all namespaces of the target cluster".to_owned(), "target"),
            Scope::TargetNamespace(namespace) => {
                (format!("in namespace {namespace:?} of the target cluster"), "target")
            }
        };
        let component = component.lease();
        Finding {
            object: account.to_owned(),
            field: format!("{verb} {kind}{which}"),
            problem: format!("the {component} may not {verb} {kind}{which} {scope}: {without}"),
            fix: format!(
                "grant {verb} on {kind}, as the role of the {component} in deploy/rbac/{folder}/roles.yaml does"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    type Grant = (String, String, String, String, String);

    fn texts(rule: &Value, field: &str) -> Vec<String> {
        let all = rule[field].as_array().into_iter().flatten();
        all.map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// Returns what a file of roles grants: role, group, resource, name, verb. A Role is prefixed with its namespace.
    fn granted(file: &str) -> BTreeSet<Grant> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac").join(file);
        let roles: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut all = BTreeSet::new();
        for role in roles {
            let text = |at: &str| role.pointer(at).and_then(Value::as_str).unwrap_or_default();
            let owner =
                format!("{} {}", text("/metadata/namespace"), text("/metadata/name").trim_start_matches("millwright:"));
            for rule in role["rules"].as_array().unwrap() {
                let names = texts(rule, "resourceNames");
                let names = if names.is_empty() { vec![String::new()] } else { names };
                for (group, resource) in texts(rule, "apiGroups").iter().flat_map(|group| {
                    texts(rule, "resources").into_iter().map(move |resource| (group.clone(), resource))
                }) {
                    for name in &names {
                        let verbs = texts(rule, "verbs").into_iter();
                        all.extend(
                            verbs.map(|verb| (owner.clone(), group.clone(), resource.clone(), name.clone(), verb)),
                        );
                    }
                }
            }
        }
        all
    }

    fn required(applies: impl Fn(Scope) -> bool) -> BTreeSet<Grant> {
        let here = PERMISSIONS.iter().filter(|permission| applies(permission.scope));
        let grants = here.flat_map(|permission| {
            let namespace = if let Scope::TargetNamespace(namespace) = permission.scope { namespace } else { "" };
            let owner = format!("{namespace} {}", permission.component.lease());
            permission.verbs.iter().map(move |verb| {
                (
                    owner.clone(),
                    permission.group.to_owned(),
                    permission.resource.to_owned(),
                    permission.name.to_owned(),
                    (*verb).to_owned(),
                )
            })
        });
        grants.collect()
    }

    /// Shows OPR-19.
    #[test]
    fn permissions_equal_the_roles_in_deploy() {
        assert_eq!(required(|scope| scope == Scope::Machines), granted("control/roles.yaml"));
        assert_eq!(required(|scope| scope != Scope::Machines), granted("target/roles.yaml"));
    }

    /// Shows OPR-19.
    #[test]
    fn each_missing_verb_has_its_own_finding() {
        let mut all = BTreeSet::new();
        for permission in PERMISSIONS {
            for verb in permission.verbs {
                let finding = permission.lacking(verb, "serviceaccount/mw/millwright", "shoot");
                assert!(
                    finding.problem.contains(permission.without) && finding.fix.contains(permission.resource),
                    "{finding}"
                );
                all.insert(finding.to_string());
            }
        }
        assert_eq!(all.len(), PERMISSIONS.iter().map(|permission| permission.verbs.len()).sum::<usize>());
    }

    #[test]
    fn finding_names_verb_object_effect_and_fix() {
        let pods = PERMISSIONS.iter().find(|permission| permission.resource == "pods/eviction").unwrap();
        let finding = pods.lacking("create", "serviceaccount/mw/millwright", "shoot").to_string();
        let expected = "serviceaccount/mw/millwright  create pods/eviction\n    \
                        the machine-controller may not create pods/eviction in all namespaces of the target cluster: a drain evicts no pods and waits for its timeout\n    \
                        fix: grant create on pods/eviction, as the role of the machine-controller in deploy/rbac/target/roles.yaml does";
        assert_eq!(finding, expected);
    }
}
