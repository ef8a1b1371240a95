//! The `binding` subresource: a scheduler tells a pod on which node it runs. Once, because a pod never moves.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Answer, Call, Part};
use crate::conditions;
use crate::decode;
use crate::failure::Failure;
use crate::meta;
use crate::state::State;

/// Binds the pod in the path to the node in the body.
pub(crate) fn bind(state: &mut State, call: &Call, body: &[u8]) -> Result<Answer, Failure> {
    let binding = decode::foreign(body, "Binding")?;
    let key = call.key();
    if *meta::name(&binding) != *key.name {
        return Err(Failure::bad_request("name in URL does not match name in Binding object"));
    }
    let target = |field: &str| binding.pointer(field).and_then(Value::as_str).unwrap_or_default();
    check_target(target("/target/kind"), target("/target/name"))?;
    let node = target("/target/name");
    let old = state.get(&call.resource, &key).cloned().ok_or_else(|| Failure::not_found(&call.resource, &key.name))?;
    check_preconditions(call, &binding, &old)?;
    let refuse = |why: &str| Err(Failure::conflict_of_part(&call.resource, Part::Binding, &key.name, why));
    if meta::is_deleting(&old) {
        return refuse(&format!("pod {} is being deleted, cannot be assigned to a host", key.name));
    }
    let assigned = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
    if !assigned.is_empty() {
        return refuse(&format!("pod {} is already assigned to node {assigned:?}", key.name));
    }
    let gates = old.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        return refuse(&format!("pod {} has non-empty .spec.schedulingGates", key.name));
    }
    let mut pod = old.as_ref().clone();
    assign(&mut pod, node, &binding, call);
    state.put(&call.resource, key, pod, call.now, call.effect());
    Ok(Answer::new(StatusCode::CREATED, success(StatusCode::CREATED).into()))
}

/// A `Status` that says that all went well.
pub(super) fn success(code: StatusCode) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code.as_u16() })
}

fn assign(pod: &mut Value, node: &str, binding: &Value, call: &Call) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".to_owned(), json!(node));
    }
    for field in ["annotations", "labels"] {
        let Some(added) = meta::get(binding, field).and_then(Value::as_object) else { continue };
        if let Some(metadata) = meta::edit(pod) {
            let present = metadata.entry(field).or_insert_with(|| json!({}));
            let added = added.iter().map(|(key, value)| (key.clone(), value.clone()));
            present.as_object_mut().into_iter().for_each(|present| present.extend(added.clone()));
        }
    }
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
        conditions::set(status, &json!({ "type": "PodScheduled", "status": "True" }), call.now);
    }
}

/// The words of a list of complaints, which the reference does not turn into a proper refusal here.
fn check_target(kind: &str, name: &str) -> Result<(), Failure> {
    let mut complaints = Vec::new();
    if !matches!(kind, "" | "Node") {
        complaints.push(format!("target.kind: Unsupported value: {kind:?}: supported values: \"Node\", \"<empty>\""));
    }
    if name.is_empty() {
        complaints.push("target.name: Required value".to_owned());
    }
    match complaints.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::unexpected(one)),
        many => Err(Failure::unexpected(format!("[{}]", many.join(", ")))),
    }
}

/// A binding may say which pod of that name it means.
fn check_preconditions(call: &Call, binding: &Value, pod: &Value) -> Result<(), Failure> {
    let mut rules =
        [("UID", meta::uid(binding), meta::uid(pod)), ("ResourceVersion", meta::version(binding), meta::version(pod))]
            .into_iter();
    let broken = rules.find(|(_, wanted, found)| !wanted.is_empty() && wanted != found);
    broken.map_or(Ok(()), |(what, wanted, found)| {
        let key = format!("/registry/pods/{}/{}", meta::namespace(pod), meta::name(pod));
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
             {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        Err(Failure::conflict(&call.resource, meta::name(pod), &why))
    })
}
