//! Classes, Secrets and a pool, as the reference's users write them for OpenStack.

use serde_json::{Value, json};

use super::cloud::{IMAGE, REGION};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// Where a scenario makes its machines: a namespace, which is also the name of its cluster in OpenStack and what the names of its machines begin with.
#[derive(Clone, Copy, Debug)]
pub(in crate::suites) struct Place<'a> {
    pub(in crate::suites) namespace: &'a str,
    /// Where Keystone is, for the driver.
    pub(in crate::suites) auth_url: &'a str,
    /// What `openstack_lab` says of the tenant.
    pub(in crate::suites) target: &'a Value,
}

/// The key of the metadata that all servers of a cluster have.
pub(in crate::suites) fn cluster_key(cluster: &str) -> String {
    format!("kubernetes.io-cluster-{cluster}")
}

/// The key of the metadata that all servers have.
pub(in crate::suites) const ROLE_KEY: &str = "kubernetes.io-role-node";

impl Place<'_> {
    /// The namespace, its Secret, and whatever is to be in it.
    pub(in crate::suites) fn with(&self, more: impl IntoIterator<Item = Value>) -> Value {
        self.with_secret(self.secret("#!/bin/sh\n<<BOOTSTRAP_TOKEN>>"), more)
    }

    /// The same with this Secret.
    pub(super) fn with_secret(&self, secret: Value, more: impl IntoIterator<Item = Value>) -> Value {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        let items: Vec<Value> = [namespace, secret].into_iter().chain(more).collect();
        json!({ "apiVersion": "v1", "kind": "List", "items": items })
    }

    /// Credentials, and what servers boot with.
    pub(in crate::suites) fn secret(&self, user_data: &str) -> Value {
        let said = |key: &str| self.target.get(key).cloned().unwrap_or_default();
        let keys = ["username", "password", "domainName", "tenantName"];
        let data: serde_json::Map<String, Value> = keys.map(|key| (key.to_owned(), said(key))).into_iter().collect();
        self.secret_with(data, user_data)
    }

    /// These credentials instead of the tenant's user.
    pub(super) fn secret_of(&self, credentials: &Value) -> Value {
        self.secret_with(credentials.as_object().cloned().unwrap_or_default(), "#!/bin/sh\n<<BOOTSTRAP_TOKEN>>")
    }

    fn secret_with(&self, mut data: serde_json::Map<String, Value>, user_data: &str) -> Value {
        data.insert("authURL".to_owned(), self.auth_url.into());
        data.insert("userData".to_owned(), user_data.into());
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": self.meta("cloud"), "stringData": data })
    }

    /// A class of servers of this flavor, each with a port and a root disk that the driver makes.
    pub(in crate::suites) fn class(&self, name: &str, flavor: &str) -> Value {
        let said = |key: &str| self.target.get(key).cloned().unwrap_or_default();
        let spec = json!({
            "imageName": IMAGE, "region": REGION, "availabilityZone": said("availabilityZone"), "flavorName": flavor,
            "keyName": said("keyName"), "securityGroups": [said("securityGroup")],
            "networkID": said("networkID"), "subnetIDs": [said("subnetID")], "podNetworkCIDRs": ["100.96.0.0/11"],
            "rootDiskSize": 10, "rootDiskType": said("volumeType"),
            "tags": { cluster_key(self.namespace): "1", ROLE_KEY: "1" },
        });
        json!({
            "apiVersion": GROUP, "kind": "MachineClass", "metadata": self.meta(name), "provider": "OpenStack",
            "providerSpec": {
                "apiVersion": "openstack.machine.gardener.cloud/v1alpha1", "kind": "MachineProviderConfig", "spec": spec,
            },
            "secretRef": { "name": "cloud", "namespace": self.namespace },
        })
    }

    /// A pool of no machines, named as its namespace.
    pub(in crate::suites) fn pool(&self, class: &str) -> Value {
        let labels = json!({ "name": self.namespace });
        json!({
            "apiVersion": GROUP, "kind": "MachineDeployment", "metadata": self.meta(self.namespace),
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": labels },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "class": { "kind": "MachineClass", "name": class } },
                },
            },
        })
    }

    fn meta(&self, name: &str) -> Value {
        json!({ "name": name, "namespace": self.namespace })
    }
}
