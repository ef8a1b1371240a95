use super::*;

/// A pod with a volume on the Node of Machine `a`, which is being deleted.
fn with_volume(name: &str, deleting: bool) -> Value {
    let mut pod = pod(deleting);
    pod["metadata"]["uid"] = json!(name);
    pod["spec"]["volumes"] = json!([{ "persistentVolumeClaim": { "claimName": format!("claim-{name}") } }]);
    pod
}

fn attachment(volume: &str) -> Value {
    json!({ "spec": { "nodeName": "n", "source": { "persistentVolumeName": volume } } })
}

/// Two pods with volumes on a healthy Node. The first one was evicted.
fn first_evicted() -> Scenario {
    let mut scenario = with_a_pod();
    for name in ["x", "y"] {
        let volume = json!({ "spec": { "volumeName": name } });
        scenario.write(Author::Others, "persistentvolumeclaims", &format!("claim-{name}"), None, Some(&volume));
        scenario.write(Author::Others, ATTACHMENTS, name, None, Some(&attachment(name)));
        scenario.write(Author::Others, "pods", name, None, Some(&with_volume(name, false)));
    }
    scenario.show_all();
    scenario.write(
        Author::ControllerEviction,
        "pods",
        "x",
        Some(&with_volume("x", false)),
        Some(&with_volume("x", true)),
    );
    assert_eq!(scenario.violation(), None);
    scenario
}

fn evict_second(scenario: &mut Scenario) -> Option<Invariant> {
    scenario.write(
        Author::ControllerEviction,
        "pods",
        "y",
        Some(&with_volume("y", false)),
        Some(&with_volume("y", true)),
    );
    scenario.violation()
}

#[test]
fn pods_with_volumes_leave_one_after_the_other() {
    assert_eq!(evict_second(&mut first_evicted()), Some(Invariant::VolumeEvictions));
    let mut attached = first_evicted();
    attached.write(Author::Others, "pods", "x", Some(&with_volume("x", true)), None);
    assert_eq!(evict_second(&mut attached), Some(Invariant::VolumeEvictions), "its volume is still attached");
    let mut gone = first_evicted();
    gone.write(Author::Others, "pods", "x", Some(&with_volume("x", true)), None);
    gone.write(Author::Others, ATTACHMENTS, "x", Some(&attachment("x")), None);
    assert_eq!(evict_second(&mut gone), None);
    let mut late = first_evicted();
    late.seconds += 120;
    assert_eq!(evict_second(&mut late), None, "the detach timeout has passed");
}

#[test]
fn daemonset_and_mirror_pods_are_left_on_the_node() {
    let mut daemon = pod(false);
    daemon["metadata"]["ownerReferences"] = json!([{ "kind": "DaemonSet", "name": "agent" }]);
    let mut mirror = pod(false);
    mirror["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "file" });
    for pod in [daemon, mirror] {
        let mut going = pod.clone();
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut scenario = with_a_pod();
        scenario.write(Author::Others, "pods", "p", None, Some(&pod));
        scenario.show_all();
        scenario.oracle.vm(scenario.now(), VmChange::Deleted, "vm-1", Some("a"));
        assert_eq!(scenario.violation(), None, "the deletion of the VM does not wait for it");
        scenario.write(Author::Others, "pods", "p", Some(&pod), Some(&going));
        assert_eq!(scenario.violation(), None, "other clients may delete it");
        scenario.write(Author::ControllerEviction, "pods", "p", Some(&pod), Some(&going));
        assert_eq!(scenario.violation(), Some(Invariant::ExcludedPods));
    }
}
