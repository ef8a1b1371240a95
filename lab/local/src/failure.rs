//! Errors of API requests, and the reason why a pod does not run.

use driver::{Code, DriverError};
use k8s_openapi::api::core::v1::{ContainerStateWaiting, Pod};

/// Creates the error of a failed request.
pub(crate) fn request(code: Code, what: &str, error: kube::Error) -> DriverError {
    DriverError::new(code, format!("failed to {what}: {error}")).because(error)
}

/// Returns whether the object does not exist.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns why a pod does not run, as the second part of a sentence. Otherwise an image that cannot be pulled would
/// only result in a timeout.
pub(crate) fn waiting_for(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref()).find_map(told);
    let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let unscheduled = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .find_map(|condition| condition.message.clone());
    match waiting.or(unscheduled) {
        Some(reason) => format!("it is {phase}: {reason}"),
        None => format!("it is {phase}"),
    }
}

fn told(waiting: &ContainerStateWaiting) -> Option<String> {
    let reason = waiting.reason.clone()?;
    Some(match waiting.message.as_deref().filter(|message| !message.is_empty()) {
        Some(message) => format!("{reason}: {message}"),
        None => reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    /// Shows HST-28.
    #[rstest]
    #[case(json!({}), "it is Pending")]
    #[case(json!({ "phase": "Failed" }), "it is Failed")]
    #[case(json!({ "phase": "Pending", "containerStatuses": [{ "name": "node", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
        "state": { "waiting": { "reason": "ErrImagePull", "message": "no such image" } } }] }), "it is Pending: ErrImagePull: no such image")]
    #[case(json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" }] }),
        "it is Pending: 0/1 nodes are available")]
    fn the_reason_why_a_pod_does_not_run_is_reported(#[case] status: Value, #[case] told: &str) {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap();
        assert_eq!(waiting_for(&pod), told);
    }
}
