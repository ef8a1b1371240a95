//! Names and labels of a machine's objects.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Prefix of pod names.
const PREFIX: &str = "machine-";
/// Label with the name of the machine. Pods of the first generation do not have it.
const MACHINE: &str = "machine";

/// Selects all pods of machines, of both generations.
pub(crate) const SELECTOR: &str = "machine-provider=local";

/// Returns the name of the pod, the Service, the Node and the provider ID of a machine.
pub(crate) fn pod(machine: &str) -> String {
    format!("{PREFIX}{machine}")
}

/// Returns the name of the Secret with a machine's user data.
pub(crate) fn user_data(machine: &str) -> String {
    format!("{PREFIX}{machine}-userdata")
}

/// Returns the machine of a pod.
pub(crate) fn machine_of(pod: &impl kube::Resource) -> String {
    let name = pod.name_any();
    let labelled = pod.labels().get(MACHINE).filter(|machine| !machine.is_empty());
    labelled.cloned().unwrap_or_else(|| name.strip_prefix(PREFIX).unwrap_or(&name).to_owned())
}

/// Returns the pod selector of a machine's Service.
pub(crate) fn selector(machine: &str) -> Value {
    json!({ "app": "machine", "machine-provider": "local", MACHINE: machine })
}

/// Returns the labels of a machine's objects: those of both generations. The last five are required by Gardener's
/// network policies.
pub(crate) fn labels(machine: &str) -> BTreeMap<&'static str, String> {
    let allowed = [
        "networking.gardener.cloud/to-dns",
        "networking.gardener.cloud/to-private-networks",
        "networking.gardener.cloud/to-public-networks",
        "networking.gardener.cloud/to-runtime-apiserver",
        "networking.resources.gardener.cloud/to-kube-apiserver-tcp-443",
    ];
    let own = [("app", "machine"), ("machine-provider", "local"), (MACHINE, machine)];
    own.into_iter().chain(allowed.map(|key| (key, "allowed"))).map(|(key, value)| (key, value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use rstest::rstest;

    /// Shows HST-27.
    #[rstest]
    #[case::labelled(json!({ "name": "machine-a", "labels": { "machine": "a" } }), "a")]
    #[case::first_generation(json!({ "name": "machine-machine-a", "labels": { "app": "machine" } }), "machine-a")]
    #[case::foreign(json!({ "name": "b" }), "b")]
    fn the_machine_of_a_pod_is_known_in_both_generations(#[case] metadata: Value, #[case] machine: &str) {
        let pod: Pod = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        assert_eq!(machine_of(&pod), machine);
    }

    #[test]
    fn a_service_selects_only_its_own_pod() {
        let labels = serde_json::to_value(labels("a")).unwrap();
        for (key, value) in selector("a").as_object().unwrap() {
            assert_eq!(labels.get(key), Some(value));
        }
        assert_eq!((pod("a"), user_data("a")), ("machine-a".into(), "machine-a-userdata".into()));
    }
}
