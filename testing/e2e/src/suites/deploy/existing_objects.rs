//! Invalid objects that existed before the policies. With the policies enabled it must still be possible to update
//! their status and labels, to scale them, and to delete them: a finalizer that cannot be removed blocks the deletion
//! of a namespace.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::web::{Answer, Proxy};

const BASE: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default";

fn objects() -> [(&'static str, Value); 4] {
    let object = |kind: &str, fields: Value| {
        let mut object = json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind,
            "metadata": { "name": "existing-object", "finalizers": ["millwright.test/hold"] },
        });
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
            object.extend(fields);
        }
        object
    };
    // A MachineDeployment must have a template; everything in it is invalid.
    let empty = json!({ "template": {} });
    let short = json!({ "capacity": {}, "instanceType": "", "region": "", "zone": "" });
    [
        ("machines", object("Machine", json!({ "spec": { "drainTimeout": "soon" } }))),
        ("machinesets", object("MachineSet", json!({ "spec": empty }))),
        ("machinedeployments", object("MachineDeployment", json!({ "spec": empty }))),
        ("machineclasses", object("MachineClass", json!({ "providerSpec": {}, "nodeTemplate": short }))),
    ]
}

/// A MachineDeployment that the controllers accept, but that is not useful: maxSurge and maxUnavailable are zero.
fn unwise() -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment", "metadata": { "name": "unwise" },
        "spec": {
            "selector": { "matchLabels": { "name": "unwise" } },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } },
            "template": {
                "metadata": { "labels": { "name": "unwise" } },
                "spec": { "class": { "kind": "MachineClass", "name": "none" } },
            },
        },
    })
}

/// Stores one object of each kind. That works only in warn mode.
pub(super) async fn store(proxy: &Proxy) -> anyhow::Result<()> {
    for (plural, object) in objects().into_iter().chain([("machinedeployments", unwise())]) {
        let answer = well(proxy.send("POST", &format!("{BASE}/{plural}"), &object).await?, plural)?;
        ensure!(!answer.warnings().is_empty(), "no warning for invalid {plural}");
    }
    Ok(())
}

/// Checks which updates of these objects are allowed.
pub(super) async fn update_and_delete(proxy: &Proxy) -> anyhow::Result<()> {
    for (plural, _) in objects() {
        let path = format!("{BASE}/{plural}/existing-object");
        let change = async |at: &str, to: Value| proxy.send("PATCH", at, &to).await;
        well(change(&path, json!({ "metadata": { "labels": { "seen": "yes" } } })).await?, "labelled")?;
        if plural != "machineclasses" {
            let status = json!({ "status": { "conditions": [] } });
            well(change(&format!("{path}/status"), status).await?, "status updated")?;
        }
        if plural == "machinesets" || plural == "machinedeployments" {
            well(change(&format!("{path}/scale"), json!({ "spec": { "replicas": 2 } })).await?, "scaled")?;
        }
        let worse = match plural {
            "machineclasses" => json!({ "nodeTemplate": { "architecture": "arm64" } }),
            "machines" => json!({ "spec": { "healthTimeout": "later" } }),
            _ => json!({ "spec": { "minReadySeconds": 7 } }),
        };
        let refused = change(&path, worse).await?;
        ensure!(refused.status == 422, "an update that leaves {plural} invalid returned {}", refused.status);
        well(proxy.send("DELETE", &path, &json!({})).await?, "deleted")?;
        well(change(&path, json!({ "metadata": { "finalizers": null } })).await?, "finalizer removed")?;
        let gone = proxy.get(&path).await?;
        ensure!(gone.status == 404, "{plural} still exist: {}", gone.status);
    }
    check_unwise(proxy).await
}

/// The autoscaler can scale such a MachineDeployment by writing the object itself, but an update of the limits to
/// invalid values is rejected.
async fn check_unwise(proxy: &Proxy) -> anyhow::Result<()> {
    let path = format!("{BASE}/machinedeployments/unwise");
    well(proxy.send("PATCH", &path, &json!({ "spec": { "replicas": 2 } })).await?, "scaled")?;
    let worse = json!({ "spec": { "strategy": { "rollingUpdate": { "maxSurge": "0%" } } } });
    let refused = proxy.send("PATCH", &path, &worse).await?;
    ensure!(refused.status == 422, "an update to unusable limits returned {}", refused.status);
    well(proxy.send("DELETE", &path, &json!({})).await?, "deleted").map(drop)
}

/// Changes region and credentials of a MachineClass in use: the API server stores the change with a warning, in both
/// modes. If the class is not in use, or another field is changed, there is no warning.
pub(super) async fn relocated(proxy: &Proxy) -> anyhow::Result<()> {
    let in_use = json!(["machine.sapcloud.io/machine-controller-manager"]);
    let class = json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass", "metadata": { "name": "relocated" },
        "provider": "aws", "providerSpec": { "region": "eu-1", "machineType": "small" },
        "secretRef": { "name": "user-data", "namespace": "default" },
        "credentialsSecretRef": { "name": "account", "namespace": "default" },
    });
    well(proxy.send("POST", &format!("{BASE}/machineclasses"), &class).await?, "stored")?;
    let path = format!("{BASE}/machineclasses/relocated");
    let change = async |to: Value| proxy.send("PATCH", &path, &to).await;
    let silent = async |to: Value| {
        let answer = well(change(to.clone()).await?, "changed")?;
        ensure!(answer.warnings().is_empty(), "{to}: {:?}", answer.warnings());
        Ok(())
    };
    silent(json!({ "providerSpec": { "region": "eu-2" } })).await?;
    silent(json!({ "metadata": { "finalizers": in_use, "labels": { "a": "b" } } })).await?;
    silent(json!({ "providerSpec": { "machineType": "large" }, "secretRef": { "name": "new-user-data" } })).await?;
    for (to, field) in [
        (json!({ "providerSpec": { "region": "eu-3" } }), "providerSpec.region"),
        (json!({ "providerSpec": { "zone": "eu-3a" } }), "providerSpec.zone"),
        (json!({ "provider": "openstack" }), "provider"),
        (json!({ "credentialsSecretRef": { "name": "other" } }), "credentialsSecretRef"),
        (json!({ "credentialsSecretRef": null }), "credentialsSecretRef"),
        (json!({ "secretRef": { "name": "other" } }), "secretRef"),
    ] {
        let answer = well(change(to).await?, field)?;
        let expected = format!("{field}: Forbidden: the MachineClass is in use");
        ensure!(
            answer.warnings().iter().any(|warning| warning.contains(&expected)),
            "{field}: {:?}",
            answer.warnings()
        );
    }
    well(proxy.send("DELETE", &path, &json!({})).await?, "deleted")?;
    well(change(json!({ "metadata": { "finalizers": null } })).await?, "finalizer removed").map(drop)
}

fn well(answer: Answer, what: &str) -> anyhow::Result<Answer> {
    answer.is_well().then_some(()).with_context(|| format!("{what}: {} {}", answer.status, answer.message()))?;
    Ok(answer)
}
