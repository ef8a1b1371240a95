//! Creates the objects that a running reference left behind, as if it had stopped a moment ago.
//!
//! The files in `fixtures/reference` are verbatim objects that its two processes had written to a real API server
//! when they were stopped. The fields that an API server assigns are new: uids (and the owner references that name
//! them), versions, generations, creation times. All other times are shifted by the same amount, so that the newest
//! of them is now. Each VM that must exist is created in our cloud, and Machine and Node get its provider ID.

use std::collections::BTreeMap;

use api::{MachineClass, Object};
use driver_virtual::{Join, Spec};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use runtime::client::Api;
use serde_json::{Value, json};

use crate::{Failure, Fixture};

/// The moments at which the reference was stopped.
const MOMENTS: &[(&str, &str)] = &[
    ("coming-up", include_str!("../../fixtures/reference/coming-up.json")),
    ("deleting-step-1", include_str!("../../fixtures/reference/deleting-step-1.json")),
    ("deleting-step-2", include_str!("../../fixtures/reference/deleting-step-2.json")),
    ("deleting-step-3", include_str!("../../fixtures/reference/deleting-step-3.json")),
    ("deleting-step-4", include_str!("../../fixtures/reference/deleting-step-4.json")),
    ("deleting-step-5", include_str!("../../fixtures/reference/deleting-step-5.json")),
    ("in-place-under-way", include_str!("../../fixtures/reference/in-place-under-way.json")),
    ("mid-rollout", include_str!("../../fixtures/reference/mid-rollout.json")),
    ("node-unknown", include_str!("../../fixtures/reference/node-unknown.json")),
    ("paused-mid-rollout", include_str!("../../fixtures/reference/paused-mid-rollout.json")),
    ("rollback-asked-mid-rollout", include_str!("../../fixtures/reference/rollback-asked-mid-rollout.json")),
    ("steady", include_str!("../../fixtures/reference/steady.json")),
    ("targeted-deletion-asked", include_str!("../../fixtures/reference/targeted-deletion-asked.json")),
];

/// Descriptions of deletions whose VM is gone.
const PAST_THE_VM: [&str; 2] = ["Initiate node object deletion", "Initiate machine object finalizer removal"];

/// Creates the objects of a moment in the fixture. No controller may run yet.
pub(super) async fn put(fixture: &Fixture, moment: &str) -> Result<(), Failure> {
    let mut objects = read(moment)?;
    move_to(&mut objects, fixture.environment.clock.now());
    clear_nodes(fixture, &objects).await?;
    let nodes: Vec<String> = objects.iter().filter(|object| kind(object) == "Node").map(name).collect();
    let vms = plant_vms(fixture, &objects, &nodes)?;
    let mut uids = BTreeMap::new();
    for object in &mut objects {
        let unseen = unseen_generations(object);
        rewrite(object, fixture, &vms);
        match kind(object).as_str() {
            "Secret" => adopt_secret(fixture, object).await?,
            "MachineClass" => put_class(fixture, object).await?,
            "Node" => put_node(fixture, object).await?,
            _ => put_custom_resource(fixture, object, unseen, &mut uids).await?,
        }
    }
    Ok(())
}

fn read(moment: &str) -> Result<Vec<Value>, Failure> {
    let text = MOMENTS.iter().find(|(name, _)| *name == moment).map_or("[]", |(_, text)| text);
    serde_json::from_str(text)
        .map_err(|error| Failure::Expectation(format!("failed to decode the fixture {moment}: {error}")))
}

/// Nodes have no namespace, and most recordings contain the same names. So the Nodes of an earlier scenario are
/// deleted first.
async fn clear_nodes(fixture: &Fixture, objects: &[Value]) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(fixture.environment.client("user"));
    for machine in objects.iter().filter(|object| matches!(kind(object).as_str(), "Machine" | "Node")) {
        let name = name(machine);
        if nodes.get_opt(&name).await.map_err(Failure::api("read a Node"))?.is_none() {
            continue;
        }
        // A Node that is being deleted disappears with its last finalizer, so either request may return 404.
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let freed = nodes.patch(&name, &PatchParams::default(), &free).await.map(drop);
        unless_gone(freed, "remove the finalizers of a Node")?;
        unless_gone(nodes.delete(&name, &DeleteParams::default()).await.map(drop), "delete a Node")?;
    }
    Ok(())
}

fn unless_gone(done: Result<(), kube::Error>, what: &str) -> Result<(), Failure> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map_err(Failure::api(what)),
    }
}

/// Moves all times by the same amount, so that the newest becomes `now`.
fn move_to(objects: &mut [Value], now: Timestamp) {
    let mut newest = Timestamp::MIN;
    for object in objects.iter_mut() {
        each_time(object, &mut |time| {
            newest = newest.max(time);
            time
        });
    }
    // Whole seconds, as API servers keep them, and never in the future.
    let by = SignedDuration::from_secs(now.as_second().saturating_sub(newest.as_second()));
    for object in objects {
        each_time(object, &mut |time| time.checked_add(by).unwrap_or(time));
    }
}

fn each_time(value: &mut Value, change: &mut impl FnMut(Timestamp) -> Timestamp) {
    match value {
        Value::String(text) => {
            if let Some(time) = text.parse::<Timestamp>().ok().filter(|_| text.ends_with('Z')) {
                *text = change(time).to_string();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_time(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_time(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Creates the VMs that must exist, by the name of their machine. A VM whose Node exists already does not register
/// again: the Node stays as the reference left it.
fn plant_vms(fixture: &Fixture, objects: &[Value], nodes: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut vms = BTreeMap::new();
    for machine in objects.iter().filter(|object| kind(object) == "Machine") {
        let description =
            machine.pointer("/status/lastOperation/description").and_then(Value::as_str).unwrap_or_default();
        if PAST_THE_VM.iter().any(|text| description.ends_with(text)) {
            continue;
        }
        let name = name(machine);
        let pace = fixture.environment.pace.provider_spec();
        let spec = Spec::decode(&pace)
            .map_err(|error| Failure::Expectation(format!("failed to decode the providerSpec: {error}")))?;
        let spec = if nodes.contains(&name) { Spec { join: Join::Never, ..spec } } else { spec };
        let vm = fixture.cloud.plant(spec, Some(name.as_str().into()));
        let vm = vm.ok_or_else(|| Failure::Expectation("the cloud has no capacity".to_owned()))?;
        vms.insert(name, vm.provider_id.to_string());
    }
    Ok(vms)
}

/// Replaces the namespace, the provider IDs and the fields that the API server assigns.
fn rewrite(object: &mut Value, fixture: &Fixture, vms: &BTreeMap<String, String>) {
    let (kind, name) = (kind(object), name(object));
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        for assigned in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            metadata.remove(assigned);
        }
        if metadata.contains_key("namespace") {
            metadata.insert("namespace".into(), json!(fixture.namespace));
        }
    }
    if let Some(id) = object.pointer_mut("/spec/providerID").filter(|_| matches!(kind.as_str(), "Machine" | "Node")) {
        *id = json!(vms.get(&name).cloned().unwrap_or_else(|| format!("virtual:///gone/{name}")));
    }
}

/// Adds the finalizers to the Secret that the fixture has created.
async fn adopt_secret(fixture: &Fixture, object: &Value) -> Result<(), Failure> {
    let secrets: Api<Secret> = fixture.api();
    let finalizers = object.pointer("/metadata/finalizers").cloned().unwrap_or_default();
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let patched = secrets.patch(&name(object), &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(Failure::api("add finalizers to the Secret"))
}

async fn put_class(fixture: &Fixture, object: &Value) -> Result<(), Failure> {
    let classes: Api<MachineClass> = fixture.api();
    let mut class = object.clone();
    if let Some(fields) = class.as_object_mut() {
        let secret = json!({ "name": "cloud", "namespace": fixture.namespace });
        fields.insert("provider".into(), json!(driver_virtual::PROVIDER));
        fields.insert("providerSpec".into(), fixture.environment.pace.provider_spec());
        fields.insert("secretRef".into(), secret);
    }
    crate::fixture::create(&classes, "create a MachineClass", class).await
}

async fn put_node(fixture: &Fixture, object: &Value) -> Result<(), Failure> {
    let nodes: Api<Node> = Api::all(fixture.environment.client("user"));
    let node: Node = serde_json::from_value(object.clone())
        .map_err(|error| Failure::Expectation(format!("failed to decode a Node of a fixture: {error}")))?;
    nodes.create(&PostParams::default(), &node).await.map_err(Failure::api("create a Node"))?;
    let status = Patch::Merge(json!({ "status": node.status }));
    let written = nodes.patch_status(&name(object), &PatchParams::default(), &status).await;
    written.map(drop).map_err(Failure::api("write the status of a Node"))
}

/// Creates a custom resource. It is untyped, so that no field is lost.
async fn put_custom_resource(
    fixture: &Fixture,
    object: &Value,
    unseen: i64,
    uids: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let (kind, name) = (kind(object), name(object));
    let api = untyped(fixture, &kind);
    let mut bare = object.clone();
    let status = bare.as_object_mut().and_then(|fields| fields.remove("status"));
    let deleting = bare
        .pointer_mut("/metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| {
            metadata.remove("deletionGracePeriodSeconds");
            metadata.remove("deletionTimestamp")
        })
        .is_some();
    for owner in bare.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
        let named = owner.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(fields) = owner.as_object_mut() {
            fields.insert("uid".into(), json!(uids.get(&named)));
        }
    }
    let bare: DynamicObject = serde_json::from_value(bare)
        .map_err(|error| Failure::Expectation(format!("failed to decode a {kind} of a fixture: {error}")))?;
    let created =
        api.create(&PostParams::default(), &bare).await.map_err(Failure::api("create an object of the reference"))?;
    uids.insert(name.clone(), created.metadata.uid.clone().unwrap_or_default());
    if deleting {
        api.delete(&name, &DeleteParams::default())
            .await
            .map_err(Failure::api("delete an object that was being deleted"))?;
    }
    let Some(Value::Object(mut status)) = status else { return Ok(()) };
    if status.contains_key("observedGeneration") {
        let generation = created.metadata.generation.unwrap_or_default();
        status.insert("observedGeneration".into(), json!(generation.saturating_sub(unseen)));
    }
    let patch = Patch::Merge(json!({ "status": status }));
    let written = api.patch_status(&name, &PatchParams::default(), &patch).await;
    written.map(drop).map_err(Failure::api("write the status of an object"))
}

/// Number of spec changes that the reference had not observed yet.
fn unseen_generations(object: &Value) -> i64 {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    number("/metadata/generation").saturating_sub(number("/status/observedGeneration"))
}

fn untyped(fixture: &Fixture, kind: &str) -> kube::Api<DynamicObject> {
    let resource = match kind {
        "MachineDeployment" => api::MachineDeployment::api_resource(),
        "MachineSet" => api::MachineSet::api_resource(),
        _ => api::Machine::api_resource(),
    };
    kube::Api::namespaced_with(fixture.environment.client("user"), &fixture.namespace, &resource)
}

fn kind(object: &Value) -> String {
    object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn name(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}
