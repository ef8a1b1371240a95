//! New Machines of a MachineSet, and their names.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::create::creates;
use super::super::*;
use super::fixture::SetFixture;

fn created(fixture: &SetFixture, count: usize) -> Vec<MachineCreate> {
    fixture.with(|seen| creates(seen, count))
}

/// Shows MS-R2.
#[test]
fn names_have_the_format_of_the_api_server() {
    for create in created(&SetFixture::new(0), 100) {
        let suffix = create.name.as_str().strip_prefix("pool-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{suffix}");
        assert_eq!(create.machine.metadata.generate_name, "pool-");
        assert_eq!(create.machine.metadata.name, create.name.as_str());
    }
}

/// Shows MS-R2.
#[test]
fn long_name_is_truncated_like_on_the_api_server() {
    let mut fixture = SetFixture::new(0);
    fixture.edit_set(|set| set["metadata"]["name"] = json!("x".repeat(253)));
    let create = created(&fixture, 1).remove(0);
    assert_eq!(create.name.as_str().len(), 63);
    assert_eq!(create.machine.metadata.generate_name.len(), 253, "with another dash the name would be invalid");
}

/// Shows MS-R2.
#[test]
fn same_seed_gives_the_same_unique_names() {
    let fixture = SetFixture::new(0);
    let names = |fixture: &SetFixture| created(fixture, 1000).into_iter().map(|create| create.name).collect::<Vec<_>>();
    assert_eq!(names(&fixture), names(&fixture));
    assert_eq!(names(&fixture).iter().collect::<BTreeSet<_>>().len(), 1000);
    let mut other = SetFixture::new(0);
    other.name_seed = 2;
    assert_ne!(names(&fixture), names(&other));
}

/// Shows MS-R2.
#[test]
fn existing_name_is_not_chosen() {
    let mut fixture = SetFixture::new(0);
    let first = created(&fixture, 1).remove(0).name.to_string();
    fixture.add(&first, "Running", 0);
    assert_ne!(created(&fixture, 1).remove(0).name.as_str(), first);
}

/// Shows MS-R2.
#[test]
fn lost_create_is_repeated_under_the_same_name() {
    let mut fixture = SetFixture::new(2);
    fixture.outstanding.creates = ["pool-bbbbb".into()].into();
    let names: Vec<String> = created(&fixture, 2).into_iter().map(|create| create.name.to_string()).collect();
    assert_eq!(names[0], "pool-bbbbb");
    assert_eq!(names.len(), 2);
}

/// Shows MS-W12.
#[test]
fn new_machine_has_finalizer_owner_and_template() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| {
        set["metadata"]["annotations"] =
            json!({ "node.machine.sapcloud.io/effective-creation-timeout": "30m", "not": "inherited" });
        set["spec"]["template"]["metadata"]["annotations"] = json!({ "a": "1" });
        set["spec"]["template"]["metadata"]["finalizers"] = json!(["z/other"]);
        set["spec"]["template"]["spec"]["creationTimeout"] = json!("10m");
    });
    let machine = serde_json::to_value(&created(&fixture, 1)[0].machine).unwrap();
    assert_eq!(machine["metadata"]["finalizers"], json!(["machine.sapcloud.io/machine-controller-manager", "z/other"]));
    assert_eq!(
        machine["metadata"]["annotations"],
        json!({ "a": "1", "node.machine.sapcloud.io/effective-creation-timeout": "30m" })
    );
    assert_eq!(machine["metadata"]["labels"], json!({ "pool": "a", "more": "b" }));
    assert_eq!(machine["metadata"]["namespace"], json!("ns"), "the namespace of its MachineSet");
    assert_eq!(
        machine["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "pool", "uid": "s-1",
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    // The timeout of the annotation is not copied into the spec, where it would be reverted to the template.
    assert_eq!(machine["spec"]["creationTimeout"], json!("10m0s"));
}
