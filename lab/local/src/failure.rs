//! Why something did not work: by the API server's word, and by what keeps a pod from running.

use driver::{Code, DriverError};
use k8s_openapi::api::core::v1::{ContainerStateWaiting, Pod};

/// A request that failed.
pub(crate) fn request(code: Code, what: &str, error: kube::Error) -> DriverError {
    DriverError::new(code, format!("failed to {what}: {error}")).because(error)
}

/// Whether the API server says that there is no such object.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// What a pod that does not run is waiting for, to follow a sentence: an image that cannot be pulled would otherwise only show as a timeout.
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
    fn a_pod_that_does_not_run_says_why(#[case] status: Value, #[case] told: &str) {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap();
        assert_eq!(waiting_for(&pod), told);
    }
}
