use serde_json::json;

use super::*;

/// Writes protobuf as Go does: enough of it to say what kubectl says.
fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(inner.len()).unwrap()];
    out.extend(inner);
    out
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &type_meta), bytes(2, raw)].concat()
}

fn read(api_version: &str, kind: &str, raw: &[u8]) -> Option<Value> {
    to_json(&Types::built_in(), &envelope(api_version, kind, raw))
}

/// Shows KIN-9.
#[test]
fn an_eviction_with_its_options_is_read() {
    let metadata = [bytes(1, b"pod"), bytes(2, b""), bytes(3, b"ns"), vec![0x38, 0], bytes(8, b"")].concat();
    let options = [vec![0x08, 0], bytes(2, &bytes(1, b"u"))].concat();
    let raw = [bytes(1, &metadata), bytes(2, &options)].concat();
    let expected = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "pod", "namespace": "ns" },
        "deleteOptions": { "gracePeriodSeconds": 0, "preconditions": { "uid": "u" } },
    });
    assert_eq!(read("policy/v1", "Eviction", &raw), Some(expected));
}

#[test]
fn maps_bytes_and_times_are_read() {
    let entry = [bytes(1, b"key"), bytes(2, b"value")].concat();
    let metadata = [bytes(1, b"s"), bytes(11, &entry), bytes(8, &[0x08, 100])].concat();
    let raw = [bytes(1, &metadata), bytes(2, &entry), bytes(3, b"Opaque")].concat();
    let expected = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "key": "dmFsdWU=" },
        "metadata": { "name": "s", "labels": { "key": "value" }, "creationTimestamp": "1970-01-01T00:01:40Z" },
    });
    assert_eq!(read("v1", "Secret", &raw), Some(expected));
}

#[test]
fn what_go_embeds_is_found_where_json_shows_it() {
    // Deployment.spec.template.spec.volumes[0].hostPath.path, where the source of a volume is embedded.
    let volume = [bytes(1, b"v"), bytes(2, &bytes(1, &bytes(1, b"/tmp")))].concat();
    let pod_spec = bytes(1, &volume);
    let spec = [vec![0x08, 0], bytes(3, &bytes(2, &pod_spec)), vec![0x28, 0], vec![0x38, 0]].concat();
    let raw = [bytes(2, &spec), bytes(3, &[0x08, 0])].concat();
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "spec": { "replicas": 0, "template": { "spec": { "volumes": [{ "name": "v", "hostPath": { "path": "/tmp" } }] } } },
        "status": {},
    });
    assert_eq!(read("apps/v1", "Deployment", &raw), Some(expected));
}

#[test]
fn int_or_string_is_what_it_says_it_is() {
    let spec = |value: &[u8]| bytes(2, &bytes(1, value));
    let min = |raw: &[u8]| read("policy/v1", "PodDisruptionBudget", raw).unwrap()["spec"]["minAvailable"].clone();
    assert_eq!(min(&spec(&[0x08, 0, 0x10, 1])), json!(1));
    assert_eq!(min(&spec(&[vec![0x08, 1, 0x10, 0], bytes(3, b"50%")].concat())), json!("50%"));
}

#[test]
fn what_is_no_envelope_or_of_no_known_kind_is_nothing() {
    let types = Types::built_in();
    assert_eq!(to_json(&types, b"{}"), None);
    assert_eq!(to_json(&types, MAGIC), None);
    assert_eq!(read("v1", "Nonsense", &[]), None);
    assert_eq!(read("v1", "Secret", &[0x0a, 0x05]), None);
}
