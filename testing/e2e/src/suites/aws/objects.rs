//! MachineClasses, Secrets and a pool for AWS.

use serde_json::{Value, json};

use super::ec2::{IMAGE, PROFILE, REGION, cluster_tag};

const GROUP: &str = "machine.sapcloud.io/v1alpha1";

/// Where a scenario creates its machines: a namespace, which is also the name of its cluster in AWS, and a subnet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) namespace: &'a str,
    pub(super) subnet: &'a str,
}

impl Place<'_> {
    /// Returns the namespace, its Secret, and these objects.
    pub(super) fn with(&self, more: impl IntoIterator<Item = Value>) -> Value {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": self.meta("cloud"),
            "stringData": { "accessKeyID": "AKIAEXAMPLE", "secretAccessKey": "secret", "userData": "#!/bin/sh\n<<BOOTSTRAP_TOKEN>>" },
        });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        let items: Vec<Value> = [namespace, secret].into_iter().chain(more).collect();
        json!({ "apiVersion": "v1", "kind": "List", "items": items })
    }

    /// Returns a MachineClass of this instance type. The check of source and destination is disabled, so that an
    /// initialization is necessary.
    pub(super) fn class(&self, name: &str, kind: &str) -> Value {
        let spec = json!({
            "ami": IMAGE, "region": REGION, "machineType": kind, "iam": { "name": PROFILE },
            "blockDevices": [{ "ebs": { "volumeSize": 50, "volumeType": "gp3" } }],
            "networkInterfaces": [{ "subnetID": self.subnet, "securityGroupIDs": ["sg-1"] }],
            "srcAndDstChecksEnabled": false,
            "tags": { cluster_tag(self.namespace): "1", "kubernetes.io/role/node": "1" },
        });
        json!({
            "apiVersion": GROUP, "kind": "MachineClass", "metadata": self.meta(name), "provider": "AWS",
            "providerSpec": spec, "secretRef": { "name": "cloud", "namespace": self.namespace },
        })
    }

    /// Returns a pool without replicas.
    pub(super) fn pool(&self, class: &str) -> Value {
        let labels = json!({ "name": self.namespace });
        json!({
            "apiVersion": GROUP, "kind": "MachineDeployment", "metadata": self.meta("pool"),
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
