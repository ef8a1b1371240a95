//! The objects of a machine, exactly as MCM's provider applies them.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use crate::names;
use crate::spec::Spec;

/// Returns the pod of a machine. It has no owner, because the Machine may be in another cluster.
pub(crate) fn pod(machine: &str, namespace: &str, spec: &Spec) -> Value {
    let pools =
        [("cni.projectcalico.org/ipv4pools", &spec.pool_v4), ("cni.projectcalico.org/ipv6pools", &spec.pool_v6)];
    let pools =
        pools.into_iter().filter_map(|(key, pool)| Some((key.to_owned(), json!(json!([pool.as_ref()?]).to_string()))));
    let annotations: Map<String, Value> = pools.collect();
    let probe = "/usr/bin/kubectl --kubeconfig /var/lib/kubelet/kubeconfig-real get no $NODE_NAME";
    let container = json!({
        "name": "node", "image": spec.image, "imagePullPolicy": "IfNotPresent", "securityContext": { "privileged": true },
        "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "ports": [{ "name": "vpn-shoot", "containerPort": 30123, "protocol": "TCP" }],
        "readinessProbe": { "exec": { "command": ["sh", "-c", probe] } },
        "volumeMounts": [
            { "name": "userdata", "mountPath": "/etc/machine" },
            { "name": "containerd", "mountPath": "/var/lib/containerd" },
            { "name": "modules", "mountPath": "/lib/modules", "readOnly": true },
            { "name": "run", "mountPath": "/run" },
            { "name": "docker-socket", "mountPath": "/var/run/docker.sock" },
        ],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": names::pod(machine), "namespace": namespace, "labels": names::labels(machine), "annotations": annotations,
        },
        "spec": {
            "dnsPolicy": "Default", "containers": [container],
            "volumes": [
                { "name": "userdata", "secret": { "secretName": names::user_data(machine), "defaultMode": 0o777 } },
                { "name": "containerd", "emptyDir": {} },
                { "name": "modules", "hostPath": { "path": "/lib/modules" } },
                { "name": "run", "emptyDir": { "medium": "Memory" } },
                { "name": "docker-socket", "hostPath": { "path": "/var/run/docker.sock", "type": "Socket" } },
            ],
        },
    })
}

/// Returns the Secret with the user data, owned by the pod with this UID.
pub(crate) fn user_data(machine: &str, namespace: &str, data: &[u8], pod_uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": owned(machine, &names::user_data(machine), namespace, pod_uid),
        "data": { "userdata": ByteString(data.to_vec()) },
    })
}

/// Returns the Service of the machine, owned by the pod with this UID.
pub(crate) fn service(machine: &str, namespace: &str, pod_uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": owned(machine, &names::pod(machine), namespace, pod_uid),
        "spec": {
            "type": "ClusterIP", "clusterIP": "None", "publishNotReadyAddresses": true, "selector": names::selector(machine),
            "ports": [{ "name": "ssh", "port": 22, "protocol": "TCP", "appProtocol": "ssh" }],
        },
    })
}

fn owned(machine: &str, name: &str, namespace: &str, pod_uid: &str) -> Value {
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": names::pod(machine), "uid": pod_uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    json!({ "name": name, "namespace": namespace, "labels": names::labels(machine), "ownerReferences": [owner] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::MachineClass;
    use driver_common::fault::Faults;

    fn spec(fields: Value) -> Spec {
        let class = MachineClass { provider: "local".into(), provider_spec: fields, ..MachineClass::default() };
        Spec::decode(&class, Faults::default()).unwrap()
    }

    /// Shows HST-27.
    #[test]
    fn a_pod_has_the_pools_of_its_class_as_annotations() {
        let both = pod("m", "n", &spec(json!({ "image": "i", "ipPoolNameV4": "four", "ipPoolNameV6": "six" })));
        let expected =
            json!({ "cni.projectcalico.org/ipv4pools": "[\"four\"]", "cni.projectcalico.org/ipv6pools": "[\"six\"]" });
        assert_eq!(both.pointer("/metadata/annotations"), Some(&expected));
        let none = pod("m", "n", &spec(json!({ "image": "i" })));
        assert_eq!(none.pointer("/metadata/annotations"), Some(&json!({})));
    }

    #[test]
    fn objects_are_valid_and_user_data_is_unchanged() {
        use k8s_openapi::api::core::v1::{Pod, Secret, Service};
        let made: Pod = serde_json::from_value(pod("m", "n", &spec(json!({ "image": "i" })))).unwrap();
        let volumes: Vec<String> = made.spec.unwrap().volumes.unwrap().into_iter().map(|volume| volume.name).collect();
        assert_eq!(volumes, ["userdata", "containerd", "modules", "run", "docker-socket"]);
        let secret: Secret = serde_json::from_value(user_data("m", "n", &[0, 255], "uid")).unwrap();
        assert_eq!(secret.data.unwrap()["userdata"].0, [0, 255]);
        assert_eq!(secret.metadata.owner_references.unwrap()[0].uid, "uid");
        let service: Service = serde_json::from_value(service("m", "n", "uid")).unwrap();
        assert_eq!(service.spec.unwrap().cluster_ip.unwrap(), "None");
    }
}
