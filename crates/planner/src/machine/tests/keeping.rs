//! The parts of a reconcile converge together under random changes by users, node agents and providers.

use std::time::Duration;

use api::Object;
use api::Preservable;
use api::names::annotations::{LAST_APPLIED_NODE_PRESERVE, PRESERVE};
use api::names::labels::{CANDIDATE_FOR_UPDATE, SELECTED_FOR_UPDATE, UPDATE_RESULT};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::MachineFixture;

/// A change between two reconciles.
#[derive(Clone, Debug)]
enum Happening {
    /// A user sets this preservation value on the Machine or its Node; nothing removes it.
    Wish { on_node: bool, value: Option<&'static str> },
    /// The node template has this label, or none.
    Template(Option<&'static str>),
    /// A label of an in-place update is added or removed.
    Label(&'static str, Option<&'static str>),
    /// The Node is healthy, or not.
    Ready(&'static str),
    /// A pod is scheduled.
    Pod,
    /// A user changes a label of the node template.
    Edit,
    /// Time passes, in minutes.
    Wait(u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let values = vec![None, Some("now"), Some("when-failed"), Some("auto-preserved"), Some("false"), Some("nonsense")];
    prop_oneof![
        3 => (any::<bool>(), prop::sample::select(values)).prop_map(|(on_node, value)| Happening::Wish { on_node, value }),
        1 => prop::sample::select(vec![None, Some("a"), Some("b")]).prop_map(Happening::Template),
        1 => prop::sample::select(vec![None, Some("true")]).prop_map(|v| Happening::Label(CANDIDATE_FOR_UPDATE, v)),
        1 => prop::sample::select(vec![None, Some("true")]).prop_map(|v| Happening::Label(SELECTED_FOR_UPDATE, v)),
        1 => prop::sample::select(vec![None, Some("successful"), Some("failed")]).prop_map(|v| Happening::Label(UPDATE_RESULT, v)),
        2 => prop::sample::select(vec!["True", "False"]).prop_map(Happening::Ready),
        1 => Just(Happening::Pod),
        1 => Just(Happening::Edit),
        2 => prop::sample::select(vec![1, 11, 60, 6000]).prop_map(Happening::Wait),
    ]
}

fn put(map: &mut Value, key: &str, value: Option<&str>) {
    match value {
        Some(value) => map[key] = json!(value),
        None => drop(map.as_object_mut().map(|map| map.remove(key))),
    }
}

fn happen(fixture: &mut MachineFixture, happening: &Happening) {
    match happening {
        Happening::Wish { on_node: true, value } => {
            fixture.edit_node(|n| put(&mut n["metadata"]["annotations"], PRESERVE, *value));
        }
        Happening::Wish { on_node: false, value } => {
            fixture.edit(|m| put(&mut m["metadata"]["annotations"], PRESERVE, *value));
        }
        Happening::Template(value) => {
            fixture.edit(|m| {
                m["spec"]["nodeTemplate"] = json!({ "metadata": { "labels": value.map(|v| json!({ "ours": v })) } });
            });
        }
        Happening::Label(key, value) => fixture.edit_node(|n| put(&mut n["metadata"]["labels"], key, *value)),
        Happening::Ready(ready) => fixture.report_ready(ready),
        Happening::Pod => fixture.add_pod("web-1"),
        Happening::Edit => fixture.edit_node(|n| n["metadata"]["labels"]["ours"] = json!("edited")),
        Happening::Wait(minutes) => fixture.wait(Duration::from_mins(*minutes)),
    }
}

proptest! {
    #[test]
    fn reconcile_converges_and_keeps_foreign_node_fields(
        happenings in prop::collection::vec(happening(), 0..25),
    ) {
        let mut fixture = MachineFixture::running();
        fixture.edit_node(|n| {
            n["metadata"]["labels"]["theirs"] = json!("l");
            n["metadata"]["annotations"]["theirs"] = json!("a");
            n["spec"]["taints"] = json!([{ "key": "theirs", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" }]);
            n["status"]["capacity"] = json!({ "cpu": "4" });
        });
        for happening in &happenings {
            happen(&mut fixture, happening);
            fixture.pods_there.truncate(1);
            fixture.settle();
            let (node, machine) = (fixture.node.as_ref().unwrap(), fixture.machine());
            prop_assert_eq!((node.label("theirs"), node.annotation("theirs")), (Some("l"), Some("a")));
            prop_assert_eq!(&node.spec.taints[0].key, "theirs");
            prop_assert!(node.status.capacity.contains_key("cpu"));
            let expiry = machine.status.current_status.preserve_expiry_time;
            prop_assert!(expiry.is_none_or(|expiry| expiry.timestamp() > fixture.now), "the expiry is in the future");
            let tainted = node.spec.taints.len() > 1;
            prop_assert!(!tainted || expiry.is_some(), "no taint without a preservation");
            let by_us = node.annotation("cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm").is_some();
            prop_assert!(!by_us || expiry.is_some(), "no autoscaler annotation without a preservation");
            let noted = machine.annotation(LAST_APPLIED_NODE_PRESERVE).is_some();
            let own = machine.preserve().is_some_and(|own| own.is_valid());
            let nonsense = node.preserve().is_some_and(|said| !said.is_valid());
            prop_assert!(!(noted && own) || nonsense, "the annotation of the Node has precedence");
        }
        prop_assert_eq!(fixture.vms, 1);
    }
}
