//! What the controllers must be allowed to do, and what it costs if they are not.
//!
//! A right that is missing shows late: a machine drains for the first time, and its drain sees no pods. So `check` asks for all of them at once. The
//! table is what the roles in `deploy/rbac` grant, verb for verb; a test holds the two to each other, and `cargo xtask rbac` holds the roles to what is used.

use crate::check::Finding;
use crate::leader::Component;

/// A right of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// Whose.
    pub component: Component,
    /// In which cluster, and where in it.
    pub place: Place,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with its subresource behind a slash.
    pub resource: &'static str,
    /// The one object it is for; empty for all.
    pub name: &'static str,
    /// What may be done.
    pub verbs: &'static [&'static str],
    /// What happens without it.
    pub without: &'static str,
}

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the namespace of the machines.
    Machines,
    /// In the whole cluster that nodes join.
    Target,
    /// In this namespace of the cluster that nodes join.
    TargetNamespace(&'static str),
}

use Component::{MachineController, Manager};

const MACHINES: &str = "machine.sapcloud.io";
const LEASES: &str = "coordination.k8s.io";

const fn right(
    component: Component,
    place: Place,
    (group, resource): (&'static str, &'static str),
    verbs: &'static [&'static str],
    without: &'static str,
) -> Right {
    Right { component, place, group, resource, name: "", verbs, without }
}

/// All of them.
pub const RIGHTS: &[Right] = &[
    right(
        Manager,
        Place::Machines,
        (MACHINES, "machines"),
        &["get", "list", "watch", "create", "patch", "delete"],
        NO_SETS,
    ),
    right(
        Manager,
        Place::Machines,
        (MACHINES, "machinesets"),
        &["get", "list", "watch", "create", "patch", "delete"],
        NO_SETS,
    ),
    right(Manager, Place::Machines, (MACHINES, "machinedeployments"), &["get", "list", "watch", "patch"], NO_SETS),
    right(Manager, Place::Machines, (MACHINES, "machinesets/status"), &["patch"], NO_STATUS),
    right(Manager, Place::Machines, (MACHINES, "machinedeployments/status"), &["patch"], NO_STATUS),
    right(Manager, Place::Machines, ("", "events"), &["create", "patch"], NO_EVENTS),
    right(Manager, Place::Machines, (LEASES, "leases"), &["create"], NO_LEADER),
    Right {
        name: api::names::MANAGER_LEASE,
        ..right(Manager, Place::Machines, (LEASES, "leases"), &["get", "update"], NO_LEADER)
    },
    right(
        Manager,
        Place::Target,
        ("", "nodes"),
        &["list", "watch", "patch"],
        "nodes are not marked in a roll-out, and none can be judged",
    ),
    right(
        MachineController,
        Place::Machines,
        (MACHINES, "machines"),
        &["get", "list", "watch", "patch", "delete"],
        NO_MACHINES,
    ),
    right(MachineController, Place::Machines, (MACHINES, "machines/status"), &["patch"], NO_STATUS),
    right(MachineController, Place::Machines, (MACHINES, "machineclasses"), &["list", "watch", "patch"], NO_MACHINES),
    right(
        MachineController,
        Place::Machines,
        ("", "secrets"),
        &["get", "list", "watch", "patch"],
        "no driver can be given its credentials, so no machine is made or deleted",
    ),
    right(MachineController, Place::Machines, ("", "events"), &["create", "patch"], NO_EVENTS),
    right(MachineController, Place::Machines, (LEASES, "leases"), &["create"], NO_LEADER),
    Right {
        name: api::names::MACHINE_CONTROLLER_LEASE,
        ..right(MachineController, Place::Machines, (LEASES, "leases"), &["get", "update"], NO_LEADER)
    },
    right(
        MachineController,
        Place::Target,
        ("", "nodes"),
        &["get", "list", "watch", "patch", "delete"],
        "machines are not seen to join, are not cordoned, and leave their Nodes behind",
    ),
    right(
        MachineController,
        Place::Target,
        ("", "nodes/status"),
        &["patch"],
        "conditions of drains and updates are not shown, and a drain waits",
    ),
    right(
        MachineController,
        Place::Target,
        ("", "pods"),
        &["list", "watch", "delete"],
        "a drain sees nobody and waits for its timeout",
    ),
    right(
        MachineController,
        Place::Target,
        ("", "pods/eviction"),
        &["create"],
        "a drain evicts nobody and waits for its timeout",
    ),
    right(MachineController, Place::Target, ("", "persistentvolumes"), &["list"], NO_DISKS),
    right(MachineController, Place::Target, ("", "persistentvolumeclaims"), &["list"], NO_DISKS),
    right(
        MachineController,
        Place::Target,
        ("policy", "poddisruptionbudgets"),
        &["list", "watch"],
        "evictions that a budget refuses are tried again by time alone",
    ),
    right(
        MachineController,
        Place::Target,
        ("storage.k8s.io", "volumeattachments"),
        &["list", "watch", "delete"],
        "disks are waited for by time alone, and those of dead nodes are not let go",
    ),
    right(
        MachineController,
        Place::TargetNamespace("kube-system"),
        ("", "secrets"),
        &["get", "create", "delete"],
        "machines whose user data asks for a bootstrap token are not made",
    ),
    right(MachineController, Place::TargetNamespace("default"), ("", "events"), &["create", "patch"], NO_EVENTS),
];

const NO_SETS: &str = "sets and deployments stand still";
const NO_MACHINES: &str = "machines stand still";
const NO_STATUS: &str = "what happens is not shown, and what waits for it stands still";
const NO_EVENTS: &str = "Events are dropped";
const NO_LEADER: &str = "no process leads, so nothing happens";
const NO_DISKS: &str = "pods with disks leave without their disks being waited for";

impl Right {
    /// What may be done instead: where a patch is not allowed, the object is read and replaced.
    #[must_use]
    pub fn instead_of(verb: &str) -> &'static [&'static str] {
        if verb == "patch" { &["get", "update"] } else { &[] }
    }

    /// That `who` lacks a verb of it.
    #[must_use]
    pub fn lacking(&self, verb: &str, who: &str, namespace: &str) -> Finding {
        let Self { component, place, group, resource, name, without, .. } = self;
        let kind = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        let which = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let (place, folder) = match place {
            Place::Machines => (format!("in namespace {namespace:?}"), "control"),
            Place::Target => ("in the whole cluster that nodes join".to_owned(), "target"),
            Place::TargetNamespace(namespace) => {
                (format!("in namespace {namespace:?} of the cluster that nodes join"), "target")
            }
        };
        let component = component.lease();
        Finding {
            object: who.to_owned(),
            field: format!("{verb} {kind}{which}"),
            problem: format!("the {component} may not {verb} {kind}{which} {place}: {without}"),
            fix: format!(
                "grant {verb} on {kind} to it, as the role of the {component} in deploy/rbac/{folder}/roles.yaml does"
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

    /// What a file of roles grants: role, group, resource, name, verb. A Role of another namespace has it before its name.
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

    fn asked(is_here: impl Fn(Place) -> bool) -> BTreeSet<Grant> {
        let here = RIGHTS.iter().filter(|right| is_here(right.place));
        let grants = here.flat_map(|right| {
            let namespace = if let Place::TargetNamespace(namespace) = right.place { namespace } else { "" };
            let owner = format!("{namespace} {}", right.component.lease());
            right.verbs.iter().map(move |verb| {
                (
                    owner.clone(),
                    right.group.to_owned(),
                    right.resource.to_owned(),
                    right.name.to_owned(),
                    (*verb).to_owned(),
                )
            })
        });
        grants.collect()
    }

    /// Shows OPR-19.
    #[test]
    fn what_is_asked_for_is_what_the_roles_in_deploy_grant_verb_for_verb() {
        assert_eq!(asked(|place| place == Place::Machines), granted("control/roles.yaml"));
        assert_eq!(asked(|place| place != Place::Machines), granted("target/roles.yaml"));
    }

    /// Shows OPR-19.
    #[test]
    fn each_verb_that_is_missing_is_a_finding_of_its_own() {
        let mut all = BTreeSet::new();
        for right in RIGHTS {
            for verb in right.verbs {
                let finding = right.lacking(verb, "serviceaccount/mw/millwright", "shoot");
                assert!(finding.problem.contains(right.without) && finding.fix.contains(right.resource), "{finding}");
                all.insert(finding.to_string());
            }
        }
        assert_eq!(all.len(), RIGHTS.iter().map(|right| right.verbs.len()).sum::<usize>());
    }

    #[test]
    fn a_finding_names_verb_object_cost_and_fix() {
        let pods = RIGHTS.iter().find(|right| right.resource == "pods/eviction").unwrap();
        let told = pods.lacking("create", "serviceaccount/mw/millwright", "shoot").to_string();
        let expected = "serviceaccount/mw/millwright  create pods/eviction\n    \
                        the machine-controller may not create pods/eviction in the whole cluster that nodes join: a drain evicts nobody and waits for its timeout\n    \
                        fix: grant create on pods/eviction to it, as the role of the machine-controller in deploy/rbac/target/roles.yaml does";
        assert_eq!(told, expected);
    }
}
