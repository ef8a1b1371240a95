//! The machines a set makes, and their names.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::create::creates;
use super::super::*;
use super::fixture::SetFixture;

fn born(fixture: &SetFixture, count: usize) -> Vec<MachineCreate> {
    fixture.with(|seen| creates(seen, count))
}

/// Shows MS-R2.
#[test]
fn names_have_the_form_and_the_alphabet_of_the_api_server() {
    for create in born(&SetFixture::new(0), 100) {
        let suffix = create.name.as_str().strip_prefix("pool-").unwrap();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{suffix}");
        assert_eq!(create.machine.metadata.generate_name, "pool-");
        assert_eq!(create.machine.metadata.name, create.name.as_str());
    }
}

/// Shows MS-R2.
#[test]
fn a_long_name_is_cut_as_the_api_server_cuts_it() {
    let mut fixture = SetFixture::new(0);
    fixture.edit_set(|set| set["metadata"]["name"] = json!("x".repeat(253)));
    let create = born(&fixture, 1).remove(0);
    assert_eq!(create.name.as_str().len(), 63);
    assert_eq!(create.machine.metadata.generate_name.len(), 253, "a dash more would be no name any more");
}

/// Shows MS-R2.
#[test]
fn the_same_name_seed_gives_the_same_names_and_no_two_are_equal() {
    let fixture = SetFixture::new(0);
    let names = |fixture: &SetFixture| born(fixture, 1000).into_iter().map(|create| create.name).collect::<Vec<_>>();
    assert_eq!(names(&fixture), names(&fixture));
    assert_eq!(names(&fixture).iter().collect::<BTreeSet<_>>().len(), 1000);
    let mut other = SetFixture::new(0);
    other.name_seed = 2;
    assert_ne!(names(&fixture), names(&other));
}

/// Shows MS-R2.
#[test]
fn a_name_that_is_taken_is_not_chosen() {
    let mut fixture = SetFixture::new(0);
    let first = born(&fixture, 1).remove(0).name.to_string();
    fixture.add(&first, "Running", 0);
    assert_ne!(born(&fixture, 1).remove(0).name.as_str(), first);
}

/// Shows MS-R2.
#[test]
fn a_create_whose_answer_was_lost_is_repeated_under_the_same_name() {
    let mut fixture = SetFixture::new(2);
    fixture.outstanding.creates = ["pool-bbbbb".into()].into();
    let names: Vec<String> = born(&fixture, 2).into_iter().map(|create| create.name.to_string()).collect();
    assert_eq!(names[0], "pool-bbbbb");
    assert_eq!(names.len(), 2);
}

/// Shows MS-W12.
#[test]
fn a_machine_is_born_with_our_finalizer_its_owner_and_all_of_the_template() {
    let mut fixture = SetFixture::new(1);
    fixture.edit_set(|set| {
        set["metadata"]["annotations"] =
            json!({ "node.machine.sapcloud.io/effective-creation-timeout": "30m", "not": "inherited" });
        set["spec"]["template"]["metadata"]["annotations"] = json!({ "a": "1" });
        set["spec"]["template"]["metadata"]["finalizers"] = json!(["z/other"]);
        set["spec"]["template"]["spec"]["creationTimeout"] = json!("10m");
    });
    let machine = serde_json::to_value(&born(&fixture, 1)[0].machine).unwrap();
    assert_eq!(machine["metadata"]["finalizers"], json!(["machine.sapcloud.io/machine-controller-manager", "z/other"]));
    assert_eq!(
        machine["metadata"]["annotations"],
        json!({ "a": "1", "node.machine.sapcloud.io/effective-creation-timeout": "30m" })
    );
    assert_eq!(machine["metadata"]["labels"], json!({ "pool": "a", "more": "b" }));
    assert_eq!(machine["metadata"]["namespace"], json!("ns"), "that of its set");
    assert_eq!(
        machine["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "pool", "uid": "s-1",
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    // The timeout of the annotation is not copied into the spec, where the template would undo it.
    assert_eq!(machine["spec"]["creationTimeout"], json!("10m0s"));
}
