//! VolumeAttachments of a Node after a forced drain.

use api::view::{NodeView, VolumeAttachmentView};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::attachments::{AttachmentId, AttachmentsView, State, detach};
use super::super::*;
use super::cluster::{BEGIN, secs};

fn node(attached: &[&str]) -> NodeView {
    let attached: Vec<Value> = attached.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"volumesAttached": attached}})).unwrap()
}

fn attachment(name: &str, node: &str, deleted: bool) -> VolumeAttachmentView {
    let deleted = deleted.then_some(BEGIN);
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "deletionTimestamp": deleted},
        "spec": {"nodeName": node, "source": {}},
    }))
    .unwrap()
}

fn attachments_view<'a>(
    node: Presence<&'a NodeView>,
    attachments: &'a [VolumeAttachmentView],
    limits: &'a Limits,
    second: u64,
) -> AttachmentsView<'a> {
    let begin: Timestamp = BEGIN.parse().unwrap();
    AttachmentsView {
        name: "n",
        node,
        attachments: Watched::Seen(attachments.iter().collect()),
        since: Some(begin),
        timeout: secs(7200),
        limits,
        now: begin + secs(second),
    }
}

#[test]
fn nothing_is_deleted_without_node_or_volumes() {
    let (limits, bare) = (Limits::default(), node(&[]));
    let live = [attachment("a", "n", false)];
    let state = |node| detach(&attachments_view(node, &live, &limits, 0), &Memory::default()).state;
    assert_eq!(state(Presence::Absent), State::NoNode);
    assert_eq!(state(Presence::Present(&bare)), State::Detached);
}

/// Shows DR-Q16, MC-W65.
#[test]
fn live_attachments_are_deleted_until_all_are_marked() {
    let (limits, node) = (Limits::default(), node(&["v"]));
    let mut memory = Memory::default();
    let all = [attachment("a", "n", false), attachment("b", "n", true), attachment("c", "other", false)];
    let plan = detach(&attachments_view(Presence::Present(&node), &all, &limits, 0), &memory);
    assert_eq!(plan.delete, [AttachmentId { name: "a".into(), uid: "uid-a".into() }]);
    assert!(matches!(plan.state, State::Waiting { live: 1, .. }));
    memory.take(plan.notes);
    assert_eq!(detach(&attachments_view(Presence::Present(&node), &all, &limits, 1), &memory).delete, [], "asked once");

    let marked = [attachment("a", "n", true)];
    let plan = detach(&attachments_view(Presence::Present(&node), &marked, &limits, 2), &memory);
    assert_eq!((plan.delete.len(), plan.state), (0, State::NoneLive), "a deletionTimestamp is sufficient");
}

/// Shows DR-Q16, MC-W65.
#[test]
fn failed_deletion_is_retried_until_the_drain_timeout() {
    let (limits, node) = (Limits::default(), node(&["v"]));
    let all = [attachment("a", "n", false)];
    let mut memory = Memory::default();
    let (mut second, mut tries) = (0, 0);
    loop {
        let attachments_view = attachments_view(Presence::Present(&node), &all, &limits, second);
        let plan = detach(&attachments_view, &memory);
        memory.take(plan.notes);
        if !plan.delete.is_empty() {
            tries += 1;
            let answered = Note::AttachmentAnswered {
                attachment: "a".into(),
                answer: Answer::lost("no".into()),
                at: attachments_view.now,
            };
            memory.take([answered]);
        }
        match plan.state {
            State::Waiting { wake: Wake::By { at, .. }, .. } => {
                assert!(at > attachments_view.now);
                second += 1;
            }
            state => {
                assert_eq!(state, State::TimedOut { live: 1 });
                break;
            }
        }
    }
    assert_eq!(second, 7200);
    assert!((40..60).contains(&tries), "{tries}");
}

/// Shows MC-W65.
#[test]
fn recreated_attachment_is_neither_deleted_nor_waited_for() {
    let (limits, node) = (Limits::default(), node(&["v"]));
    let mut memory = Memory::default();
    let all = [attachment("a", "n", false)];
    let plan = detach(&attachments_view(Presence::Present(&node), &all, &limits, 0), &memory);
    memory.take(plan.notes);
    let at = BEGIN.parse().unwrap();
    memory.take([Note::AttachmentAnswered { attachment: "a".into(), answer: Answer::Accepted, at }]);

    let mut again = attachment("a", "n", false);
    again.metadata.uid = "another".into();
    let all = [again, attachment("b", "n", false)];
    let plan = detach(&attachments_view(Presence::Present(&node), &all, &limits, 1), &memory);
    assert_eq!(plan.delete, [AttachmentId { name: "b".into(), uid: "uid-b".into() }]);
    memory.take(plan.notes);
    memory.take([Note::AttachmentAnswered { attachment: "b".into(), answer: Answer::Gone, at }]);
    let plan = detach(&attachments_view(Presence::Present(&node), &all, &limits, 2), &memory);
    assert_eq!((plan.delete.len(), plan.state), (0, State::NoneLive));
}

#[test]
fn nothing_is_concluded_before_attachments_are_listed() {
    let (limits, node) = (Limits::default(), node(&["v"]));
    let mut attachments_view = attachments_view(Presence::Present(&node), &[], &limits, 0);
    attachments_view.attachments = Watched::NotYet;
    assert!(matches!(detach(&attachments_view, &Memory::default()).state, State::Waiting { live: 0, .. }));
}
