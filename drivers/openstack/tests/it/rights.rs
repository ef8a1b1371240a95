//! The shipped access rules for application credentials allow every request, and no rule is unused.

use std::collections::{BTreeMap, BTreeSet};

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Rule};
use driver::{Call, Driver};
use serde_json::json;

use crate::memory::{
    Memory, create_and_initialize, known, listed, request, spec_with, spec_with_port_and_volume, stub,
};

const SHIPPED: &str = include_str!("../../../../deploy/openstack-driver/access-rules.json");

/// Service, method and path.
type AccessRule = [String; 3];

/// Reads the rules in the format of `openstack application credential create --access-rules`.
fn shipped() -> BTreeSet<AccessRule> {
    let rules: Vec<BTreeMap<String, String>> = serde_json::from_str(SHIPPED).unwrap();
    rules.into_iter().map(|rule| ["service", "method", "path"].map(|key| rule[key].clone())).collect()
}

/// Returns the rule for a request, from method and path without ids; `None` for Keystone, where rules do not apply.
fn needed(asked: &str) -> Option<AccessRule> {
    let (method, path) = asked.split_once(" /").unwrap();
    let (service, path) = path.split_once('/').unwrap();
    let service = match service {
        "identity" => return None,
        "volume" => "volumev3",
        other => other,
    };
    Some([service.to_owned(), method.to_owned(), format!("/{path}")])
}

/// Returns all requests that the driver can send: networks by name, its own ports and volumes, and the leftovers of an
/// interrupted create.
async fn everything() -> Vec<String> {
    let memory = Memory::new(Settings::default());
    let call = Call::default();
    let networks = json!([{ "name": Settings::NETWORK.0, "podNetwork": true }]);
    let changes = json!({ "networkID": null, "networks": networks });
    for spec in [spec_with(&changes), spec_with_port_and_volume()] {
        let (driver, request) = (memory.driver(), request(spec));
        let made = create_and_initialize(&driver, &request).await.unwrap();
        let known = known(&request, made.provider_id.as_str());
        driver.status(&call, &known).await.unwrap();
        driver.delete(&call, &known).await.unwrap();
    }
    let request = request(spec_with_port_and_volume());
    memory.rule(Rule::next(Fault::HangBefore, |asked| asked.method == "POST" && asked.path.ends_with("/servers")));
    let driver = memory.driver();
    let killed = tokio::time::timeout(std::time::Duration::from_mins(1), driver.create(&call, &request)).await;
    assert!(killed.is_err());
    for (id, _) in listed(&memory, &request).await {
        memory.driver().delete(&call, &stub(&request, &id)).await.unwrap();
    }
    memory.asked()
}

/// Shows OST-14.
#[tokio::test(start_paused = true)]
async fn access_rules_are_sufficient_and_minimal() {
    let shipped = shipped();
    let needed: BTreeSet<AccessRule> = everything().await.iter().filter_map(|asked| needed(asked)).collect();
    assert_eq!(needed.difference(&shipped).collect::<Vec<_>>(), Vec::<&AccessRule>::new(), "not allowed");
    assert_eq!(shipped.difference(&needed).collect::<Vec<_>>(), Vec::<&AccessRule>::new(), "never requested");
}
