//! What pods ask for and nodes have: cpu, memory, and places for pods.

use std::collections::BTreeMap;

use api::Quantity;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource;

/// Amounts in thousandths, so that half a core is a whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) cpu: i128,
    pub(crate) memory: i128,
    pub(crate) pods: i128,
}

/// One thing, in thousandths.
const ONE: i128 = 1000;

impl Amounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        self.pods += other.pods;
    }
}

type Listed = BTreeMap<String, resource::Quantity>;

fn amount(listed: Option<&Listed>, name: &str) -> Option<i128> {
    Quantity::from(listed?.get(name)?.0.as_str()).thousandths()
}

/// What a pod asks for: the sum of its containers, or its greediest init container.
pub(crate) fn requests(pod: &Pod) -> Amounts {
    let of = |container: &Container, name: &str| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        amount(requests, name).unwrap_or_default()
    };
    let Some(spec) = &pod.spec else { return Amounts::default() };
    let total = |name: &str| {
        let together: i128 = spec.containers.iter().map(|container| of(container, name)).sum();
        let first = spec.init_containers.iter().flatten().map(|container| of(container, name)).max();
        together.max(first.unwrap_or_default())
    };
    Amounts { cpu: total("cpu"), memory: total("memory"), pods: ONE }
}

/// Returns the resources that a node lacks for a pod next to the existing ones, by their names in messages. A node
/// without capacity values has none, which keeps pods away until its kubelet reports.
pub(crate) fn lacking(node: &Node, used: Amounts, wanted: Amounts) -> Option<&'static str> {
    let has = node.status.as_ref().and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()));
    let short = |name, used: i128, wanted: i128| wanted > 0 && used + wanted > amount(has, name).unwrap_or_default();
    if short("pods", used.pods, wanted.pods) {
        Some("Too many pods")
    } else if short("cpu", used.cpu, wanted.cpu) {
        Some("Insufficient cpu")
    } else if short("memory", used.memory, wanted.memory) {
        Some("Insufficient memory")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("1500m", "1Gi", 0, None)]
    #[case("1501m", "1Gi", 0, Some("Insufficient cpu"))]
    #[case("1", "5Gi", 0, Some("Insufficient memory"))]
    #[case("1", "1Gi", 1, Some("Too many pods"))]
    fn a_full_node_takes_no_more(
        #[case] cpu: &str,
        #[case] memory: &str,
        #[case] there: i128,
        #[case] expected: Option<&str>,
    ) {
        let node: Node = serde_json::from_value(json!({
            "metadata": {}, "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "1" } } }))
        .unwrap();
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": { "containers": [
            { "name": "a", "resources": { "requests": { "cpu": cpu, "memory": memory } } },
            { "name": "b", "resources": { "requests": { "cpu": "500m" } } },
        ] } }))
        .unwrap();
        assert_eq!(lacking(&node, Amounts { pods: there * ONE, ..Amounts::default() }, requests(&pod)), expected);
    }

    #[test]
    fn a_node_that_has_not_spoken_has_no_room() {
        let wanted = Amounts { pods: ONE, ..Amounts::default() };
        assert_eq!(lacking(&Node::default(), Amounts::default(), wanted), Some("Too many pods"));
    }

    #[test]
    fn a_greedy_init_container_counts_instead_of_the_sum() {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "spec": {
            "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "3" } } }],
            "containers": [{ "name": "a", "resources": { "requests": { "cpu": "1", "memory": "1" } } }],
        } }))
        .unwrap();
        assert_eq!(requests(&pod), Amounts { cpu: 3000, memory: 1000, pods: 1000 });
    }
}
