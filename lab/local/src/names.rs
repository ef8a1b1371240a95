//! What the objects of a machine are called, and how they are known again.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use serde_json::{Value, json};

/// What the names of pods begin with.
const PREFIX: &str = "machine-";
/// Which machine a pod is. The first generation did not say.
const MACHINE: &str = "machine";

/// Finds all pods that are machines, of both generations.
pub(crate) const SELECTOR: &str = "machine-provider=local";

/// The pod, the Service, the Node and the provider id of a machine all have this name.
pub(crate) fn pod(machine: &str) -> String {
    format!("{PREFIX}{machine}")
}

/// The Secret with a machine's user data.
pub(crate) fn user_data(machine: &str) -> String {
    format!("{PREFIX}{machine}-userdata")
}

/// The machine that a pod is.
pub(crate) fn machine_of(pod: &impl kube::Resource) -> String {
    let name = pod.name_any();
    let labelled = pod.labels().get(MACHINE).filter(|machine| !machine.is_empty());
    labelled.cloned().unwrap_or_else(|| name.strip_prefix(PREFIX).unwrap_or(&name).to_owned())
}

/// What a Service finds a machine's pod by.
pub(crate) fn selector(machine: &str) -> Value {
    json!({ "app": "machine", "machine-provider": "local", MACHINE: machine })
}

/// The labels of a machine's objects: those of both generations. The last five let network policies of Gardener pass the pod's traffic.
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
    #[case::somebody_else_s(json!({ "name": "b" }), "b")]
    fn a_pod_tells_its_machine_in_both_generations(#[case] metadata: Value, #[case] machine: &str) {
        let pod: Pod = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        assert_eq!(machine_of(&pod), machine);
    }

    #[test]
    fn a_service_finds_only_its_own_pod() {
        let labels = serde_json::to_value(labels("a")).unwrap();
        for (key, value) in selector("a").as_object().unwrap() {
            assert_eq!(labels.get(key), Some(value));
        }
        assert_eq!((pod("a"), user_data("a")), ("machine-a".into(), "machine-a-userdata".into()));
    }
}
