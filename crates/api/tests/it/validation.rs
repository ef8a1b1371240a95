//! Tests of each validation rule with its error text.

use api::validation::{joined, machine, machine_class, machine_deployment, machine_set, user_data};
use api::{Machine, MachineClass, MachineDeployment, MachineSet, SecretData};
use rstest::rstest;
use serde_json::{Value, json};

/// Sets one value in an otherwise valid object; null removes it.
fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.into(), value);
    }
    object
}

fn a_template() -> Value {
    json!({"metadata": {"labels": {"name": "md"}}, "spec": {"class": {"kind": "MachineClass", "name": "c"}}})
}

fn a_set() -> Value {
    json!({"spec": {"replicas": 3, "selector": {"matchLabels": {"name": "md"}}, "template": a_template()}})
}

fn a_deployment() -> Value {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}});
    with(a_set(), "/spec/strategy", strategy)
}

fn texts(errors: &[api::validation::FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn valid_objects_have_no_errors() {
    let m: Machine = serde_json::from_value(a_template()).unwrap();
    assert_eq!(texts(&machine(&m)), [""; 0]);
    assert_eq!(texts(&machine_set(&serde_json::from_value(a_set()).unwrap())), [""; 0]);
    assert_eq!(texts(&machine_deployment(&serde_json::from_value(a_deployment()).unwrap())), [""; 0]);
    let recreate = with(a_deployment(), "/spec/strategy", json!({"type": "Recreate"}));
    assert_eq!(texts(&machine_deployment(&serde_json::from_value(recreate).unwrap())), [""; 0]);
    let in_place = json!({"type": "InPlaceUpdate",
        "inPlaceUpdate": {"maxSurge": 0, "maxUnavailable": 0, "orchestrationType": "Manual"}});
    let in_place = with(a_deployment(), "/spec/strategy", in_place);
    assert_eq!(texts(&machine_deployment(&serde_json::from_value(in_place).unwrap())), [""; 0]);
}

/// Shows API-9, MS-R27.
#[rstest]
#[case("/spec/class/kind", json!(null), "spec.class.kind: Required value: Kind is required")]
#[case("/spec/class/name", json!(""), "spec.class.name: Required value: Name is required")]
#[case("/spec/drainTimeout", json!("soon"),
    "spec.drainTimeout: Invalid value: \"soon\": must be a Go duration such as 20m or 1h30m")]
#[case("/spec/healthTimeout", json!("1d"),
    "spec.healthTimeout: Invalid value: \"1d\": must be a Go duration such as 20m or 1h30m")]
#[case("/spec/creationTimeout", json!(""),
    "spec.creationTimeout: Invalid value: \"\": must be a Go duration such as 20m or 1h30m")]
#[case("/spec/inPlaceUpdateTimeout", json!("20"),
    "spec.inPlaceUpdateTimeout: Invalid value: \"20\": must be a Go duration such as 20m or 1h30m")]
#[case("/spec/machinePreserveTimeout", json!("x"),
    "spec.machinePreserveTimeout: Invalid value: \"x\": must be a Go duration such as 20m or 1h30m")]
#[case("/spec/creationTimeout", json!("-5m"), "spec.creationTimeout: Invalid value: \"-5m0s\": must be 0 or more")]
#[case("/spec/drainTimeout", json!("-1ns"), "spec.drainTimeout: Invalid value: \"-1ns\": must be 0 or more")]
#[case("/spec/healthTimeout", json!("-1h"), "spec.healthTimeout: Invalid value: \"-1h0m0s\": must be 0 or more")]
#[case("/spec/inPlaceUpdateTimeout", json!("-1s"), "spec.inPlaceUpdateTimeout: Invalid value: \"-1s\": must be 0 or more")]
#[case("/spec/machinePreserveTimeout", json!("-1s"), "spec.machinePreserveTimeout: Invalid value: \"-1s\": must be 0 or more")]
#[case("/metadata/annotations", json!({"node.machine.sapcloud.io/effective-creation-timeout": "-5m"}),
    "metadata.annotations[node.machine.sapcloud.io/effective-creation-timeout]: Invalid value: \"-5m\": must be 0 or more")]
fn invalid_machine_is_rejected(#[case] path: &str, #[case] value: Value, #[case] text: &str) {
    let m: Machine = serde_json::from_value(with(a_template(), path, value)).unwrap();
    assert_eq!(texts(&machine(&m)), [text]);
}

/// Shows MS-R27.
#[rstest]
#[case("/spec/creationTimeout", json!("0"))]
#[case("/spec/drainTimeout", json!("0s"))]
#[case("/spec/healthTimeout", json!("-0s"))]
fn duration_of_zero_is_accepted(#[case] path: &str, #[case] value: Value) {
    let m: Machine = serde_json::from_value(with(a_template(), path, value)).unwrap();
    assert_eq!(texts(&machine(&m)), [""; 0]);
}

/// Shows MS-R25.
#[test]
fn machine_set_is_rejected_when_its_selector_is_empty() {
    let set =
        |selector: Value| machine_set(&serde_json::from_value(with(a_set(), "/spec/selector", selector)).unwrap());
    let fault = "spec.selector: Required value: an empty selector would select all machines; it must match spec.template.metadata.labels";
    assert_eq!(texts(&set(json!({}))), [fault]);
    assert_eq!(texts(&set(json!({"matchLabels": {}, "matchExpressions": []}))), [fault]);
    assert_eq!(texts(&set(json!({"matchExpressions": [{"key": "name", "operator": "Exists"}]}))), [""; 0]);
}

/// Shows API-9, MD-D20, MS-W6.
#[rstest]
#[case("/spec/replicas", json!(-1), "spec.replicas: Required value: Replicas has to be a whole number")]
#[case("/spec/selector/matchLabels", json!({"name": "other", "more": "x"}),
    "spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels")]
#[case("/spec/template/metadata", json!({}),
    "spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels")]
#[case("/spec/template/spec/class/kind", json!(null), "spec.template.spec.class.kind: Required value: Kind is required")]
#[case("/spec/template/spec/class/name", json!(null), "spec.template.spec.class.name: Required value: Name is required")]
#[case("/spec/selector", json!(null),
    "spec.selector: Required value: a selector is required; it must match spec.template.metadata.labels")]
#[case("/spec/selector/matchExpressions", json!([{"key": "a", "operator": "Near", "values": ["b"]}]),
    "spec.selector.matchExpressions[0].operator: Invalid value: \"Near\": \"Near\" is not a valid label selector operator")]
#[case("/spec/template/spec/drainTimeout", json!("soon"),
    "spec.template.spec.drainTimeout: Invalid value: \"soon\": must be a Go duration such as 20m or 1h30m")]
fn invalid_set_or_deployment_is_rejected(#[case] path: &str, #[case] value: Value, #[case] text: &str) {
    let set: MachineSet = serde_json::from_value(with(a_set(), path, value.clone())).unwrap();
    assert_eq!(texts(&machine_set(&set)), [text]);
    let deployment: MachineDeployment = serde_json::from_value(with(a_deployment(), path, value)).unwrap();
    assert_eq!(texts(&machine_deployment(&deployment)), [text]);
}

/// Shows API-9, MD-D20.
#[rstest]
#[case("/spec/strategy/type", json!(null),
    "spec.strategy.type: Invalid value: \"\": strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]")]
#[case("/spec/strategy/type", json!("Rolling"),
    "spec.strategy.type: Invalid value: \"Rolling\": strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]")]
#[case("/spec/strategy/rollingUpdate", json!(null),
    "spec.strategy.rollingUpdate: Required value: RollingUpdate parameter cannot be nil for rolling update strategy")]
#[case("/spec/strategy/type", json!("InPlaceUpdate"),
    "spec.strategy.inPlaceUpdate: Required value: InPlaceUpdate parameter cannot be nil for in-place update strategy")]
#[case("/spec/strategy/rollingUpdate/maxUnavailable", json!("5"),
    "spec.strategy.rollingUpdate.maxUnavailable: Required value: unable to convert maxUnavailable to int32")]
#[case("/spec/strategy/rollingUpdate/maxSurge", json!(null),
    "spec.strategy.rollingUpdate.maxSurge: Required value: unable to convert maxSurge to int32")]
#[case("/spec/strategy/rollingUpdate/maxSurge", json!(3_000_000_000_i64),
    "spec.strategy.rollingUpdate.maxSurge: Required value: unable to convert maxSurge to int32")]
fn invalid_strategy_is_rejected(#[case] path: &str, #[case] value: Value, #[case] text: &str) {
    let deployment: MachineDeployment = serde_json::from_value(with(a_deployment(), path, value)).unwrap();
    assert_eq!(texts(&machine_deployment(&deployment)), [text]);
}

#[test]
fn in_place_strategy_requires_limits_and_orchestration() {
    let strategy = json!({"type": "InPlaceUpdate", "inPlaceUpdate": {"orchestrationType": "auto"}});
    let deployment: MachineDeployment =
        serde_json::from_value(with(a_deployment(), "/spec/strategy", strategy)).unwrap();
    assert_eq!(
        texts(&machine_deployment(&deployment)),
        [
            "spec.strategy.inPlaceUpdate.maxUnavailable: Required value: unable to convert maxUnavailable to int32",
            "spec.strategy.inPlaceUpdate.maxSurge: Required value: unable to convert maxSurge to int32",
            "spec.strategy.inPlaceUpdate.orchestrationType: Invalid value: \"auto\": orchestrationType must be either Auto or Manual",
        ]
    );
}

/// Shows API-9.
#[test]
fn several_errors_have_the_order_and_form_of_mcm() {
    let deployment = json!({"spec": {
        "replicas": -1, "strategy": {"type": "X"}, "selector": {"matchLabels": {"a": "b"}}, "template": {},
    }});
    let deployment: MachineDeployment = serde_json::from_value(deployment).unwrap();
    assert_eq!(
        joined(&machine_deployment(&deployment)),
        "[spec.replicas: Required value: Replicas has to be a whole number, \
         spec.strategy.type: Invalid value: \"X\": strategy type must be one of [InPlaceUpdate Recreate RollingUpdate], \
         spec.selector.matchLabels: Required value: is not matching with spec.template.metadata.labels, \
         spec.template.spec.class.kind: Required value: Kind is required, \
         spec.template.spec.class.name: Required value: Name is required]"
    );
    let mut one = machine_deployment(&deployment);
    one.truncate(1);
    assert_eq!(joined(&one), "spec.replicas: Required value: Replicas has to be a whole number");
}

/// Shows API-9.
#[test]
fn values_that_mcm_accepts_are_accepted() {
    let odd = [
        ("/spec/strategy/rollingUpdate", json!({"maxSurge": 0, "maxUnavailable": 0})),
        ("/spec/strategy/rollingUpdate", json!({"maxSurge": -1, "maxUnavailable": "-5%"})),
        ("/spec/selector", json!({})),
        ("/spec/selector/matchLabels", json!({"gone": ""})),
    ];
    for (path, value) in odd {
        let deployment = with(a_deployment(), path, value);
        assert_eq!(texts(&machine_deployment(&serde_json::from_value(deployment).unwrap())), [""; 0], "{path}");
    }
}

#[test]
fn class_with_incomplete_node_template_is_rejected() {
    let class: MachineClass = serde_json::from_value(json!({"providerSpec": {}})).unwrap();
    assert_eq!(texts(&machine_class(&class)), [""; 0], "a node template is optional");
    let class: MachineClass =
        serde_json::from_value(json!({"nodeTemplate": {"capacity": {"cpu": 4}, "instanceType": "m", "zone": "z"}}))
            .unwrap();
    assert_eq!(
        texts(&machine_class(&class)),
        [
            "nodeTemplate.capacity.gpu: Required value: capacity must name cpu, gpu and memory",
            "nodeTemplate.capacity.memory: Required value: capacity must name cpu, gpu and memory",
            "nodeTemplate.region: Required value: region must not be empty",
        ]
    );
}

#[test]
fn user_data_is_required_but_may_be_empty() {
    assert_eq!(user_data(&SecretData::from_iter([("userData", "")]), "m"), Ok(&b""[..]));
    let error = user_data(&SecretData::from_iter([("userdata", "x")]), "m").unwrap_err();
    assert_eq!(error.to_string(), "userdata field not found in secret for machine \"m\"");
}
