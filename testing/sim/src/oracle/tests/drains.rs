use super::*;

/// A pod with a volume on the node of machine `a`, which is being deleted.
fn with_volume(name: &str, deleting: bool) -> Value {
    let mut pod = pod(deleting);
    pod["metadata"]["uid"] = json!(name);
    pod["spec"]["volumes"] = json!([{ "persistentVolumeClaim": { "claimName": format!("claim-{name}") } }]);
    pod
}

fn attachment(volume: &str) -> Value {
    json!({ "spec": { "nodeName": "n", "source": { "persistentVolumeName": volume } } })
}

/// Two pods with volumes on a healthy node, the first of which was evicted.
fn first_evicted() -> Story {
    let mut story = with_a_pod();
    for name in ["x", "y"] {
        let volume = json!({ "spec": { "volumeName": name } });
        story.write(Author::Others, "persistentvolumeclaims", &format!("claim-{name}"), None, Some(&volume));
        story.write(Author::Others, ATTACHMENTS, name, None, Some(&attachment(name)));
        story.write(Author::Others, "pods", name, None, Some(&with_volume(name, false)));
    }
    story.see();
    story.write(Author::OurEviction, "pods", "x", Some(&with_volume("x", false)), Some(&with_volume("x", true)));
    assert_eq!(story.wrong(), None);
    story
}

fn evict_second(story: &mut Story) -> Option<Invariant> {
    story.write(Author::OurEviction, "pods", "y", Some(&with_volume("y", false)), Some(&with_volume("y", true)));
    story.wrong()
}

#[test]
fn pods_with_volumes_leave_one_after_the_other() {
    assert_eq!(evict_second(&mut first_evicted()), Some(Invariant::Serial));
    let mut attached = first_evicted();
    attached.write(Author::Others, "pods", "x", Some(&with_volume("x", true)), None);
    assert_eq!(evict_second(&mut attached), Some(Invariant::Serial), "its volume is still attached");
    let mut gone = first_evicted();
    gone.write(Author::Others, "pods", "x", Some(&with_volume("x", true)), None);
    gone.write(Author::Others, ATTACHMENTS, "x", Some(&attachment("x")), None);
    assert_eq!(evict_second(&mut gone), None);
    let mut late = first_evicted();
    late.seconds += 120;
    assert_eq!(evict_second(&mut late), None, "it has had its time");
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
        let mut story = with_a_pod();
        story.write(Author::Others, "pods", "p", None, Some(&pod));
        story.see();
        story.oracle.vm(story.now(), VmChange::Deleted, "vm-1", Some("a"));
        assert_eq!(story.wrong(), None, "its VM does not wait for it");
        story.write(Author::Others, "pods", "p", Some(&pod), Some(&going));
        assert_eq!(story.wrong(), None, "others may delete it");
        story.write(Author::OurEviction, "pods", "p", Some(&pod), Some(&going));
        assert_eq!(story.wrong(), Some(Invariant::Excluded));
    }
}
