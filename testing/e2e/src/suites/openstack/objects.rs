//! MachineClasses, Secrets and a pool for OpenStack.

use serde_json::{Value, json};

use super::cloud::{IMAGE, REGION};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// Where a scenario creates its machines: a namespace, which is also the name of its cluster in OpenStack and the
/// prefix of the names of its machines.
#[derive(Clone, Copy, Debug)]
pub(in crate::suites) struct Place<'a> {
    pub(in crate::suites) namespace: &'a str,
    /// Address of Keystone, for the driver.
    pub(in crate::suites) auth_url: &'a str,
    /// Target of the tenant, as written by `lab_openstack`.
    pub(in crate::suites) target: &'a Value,
}

/// Returns the metadata key that all servers of a cluster have.
pub(in crate::suites) fn cluster_key(cluster: &str) -> String {
    format!("kubernetes.io-cluster-{cluster}")
}

/// Metadata key that all servers have.
pub(in crate::suites) const ROLE_KEY: &str = "kubernetes.io-role-node";

impl Place<'_> {
    /// Returns the namespace, its Secret, and these objects.
    pub(in crate::suites) fn with(&self, more: impl IntoIterator<Item = Value>) -> Value {
        self.with_secret(self.secret("#!/bin/sh\n<<BOOTSTRAP_TOKEN>>"), more)
    }

    /// The same with this Secret.
    pub(super) fn with_secret(&self, secret: Value, more: impl IntoIterator<Item = Value>) -> Value {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        let items: Vec<Value> = [namespace, secret].into_iter().chain(more).collect();
        json!({ "apiVersion": "v1", "kind": "List", "items": items })
    }

    /// Returns a Secret with the credentials and the user data.
    pub(in crate::suites) fn secret(&self, user_data: &str) -> Value {
        let said = |key: &str| self.target.get(key).cloned().unwrap_or_default();
        let keys = ["username", "password", "domainName", "tenantName"];
        let data: serde_json::Map<String, Value> = keys.map(|key| (key.to_owned(), said(key))).into_iter().collect();
        self.secret_with(data, user_data)
    }

    /// Returns a Secret with these credentials instead of the tenant's user.
    pub(super) fn secret_of(&self, credentials: &Value) -> Value {
        self.secret_with(credentials.as_object().cloned().unwrap_or_default(), "#!/bin/sh\n<<BOOTSTRAP_TOKEN>>")
    }

    fn secret_with(&self, mut data: serde_json::Map<String, Value>, user_data: &str) -> Value {
        data.insert("authURL".to_owned(), self.auth_url.into());
        data.insert("userData".to_owned(), user_data.into());
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": self.meta("cloud"), "stringData": data })
    }

    /// Returns a MachineClass of this flavor, whose machines have a port and a root volume that the driver creates.
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

    /// Returns a pool without replicas, named like its namespace.
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
