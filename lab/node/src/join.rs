//! User data and permissions of a kubelet that joins.

use serde_json::{Value, json};

use crate::network::Network;

/// User data of machines with the root image.
const USER_DATA: &str = include_str!("../../../hack/node-image/user-data.sh");

/// The cluster that a Node joins.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// The provider of its machines.
    pub provider: &'a str,
    /// Its name in provider IDs.
    pub name: &'a str,
    /// The certificate of its CA in PEM.
    pub authority: &'a str,
    /// The port of its API server at the gateway.
    pub port: u16,
    /// Its addresses.
    pub network: Network,
}

impl Cluster<'_> {
    /// Returns the user data: it starts containerd, and a kubelet that joins with the bootstrap token that Millwright
    /// inserts.
    pub fn user_data(&self) -> String {
        USER_DATA
            .replace("@CA@", self.authority.trim())
            .replace("@SERVER@", &format!("https://{}:{}", self.network.gateway(), self.port))
            .replace("@PROVIDER@", self.provider)
            .replace("@CLUSTER@", self.name)
            .replace("@PODS@", &self.network.pods())
    }
}

/// Returns the role bindings for the request, approval and renewal of certificates.
pub fn rights() -> Value {
    let binding = |name: &str, role: &str, group: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
        })
    };
    let approve = |whose: &str| format!("system:certificates.k8s.io:certificatesigningrequests:{whose}");
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        binding("nodes-join", "system:node-bootstrapper", "system:bootstrappers"),
        binding("nodes-are-approved", &approve("nodeclient"), "system:bootstrappers"),
        binding("nodes-renew", &approve("selfnodeclient"), "system:nodes"),
    ] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::OF_SUITES;

    #[test]
    fn user_data_contains_all_values_except_for_the_token() {
        let cluster = Cluster { provider: "host", name: "shoot", authority: "PEM\n", port: 6443, network: OF_SUITES };
        let text = cluster.user_data();
        assert!(text.contains("https://10.76.0.1:6443") && text.contains("host:///shoot/<<MACHINE_NAME>>"), "{text}");
        assert!(text.contains("\nPEM\nEND\n") && text.contains("pods=10.77.${address##*.}.0/24"), "{text}");
        assert!(!text.lines().any(|line| !line.starts_with('#') && line.contains('@')), "{text}");
    }
}
