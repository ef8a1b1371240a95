//! What a driver's test has to know of a lab.

use serde_json::{Value, json};

use crate::client::TENANT;

/// Of the lab whose Keystone is at `auth_url`; `tenant` has the ids that were given out when it was installed.
pub(crate) fn describe(auth_url: &str, tenant: &Value) -> Value {
    let mut target = json!({
        "authURL": auth_url, "region": "RegionOne", "domainName": "Default",
        "username": TENANT.name, "password": TENANT.password, "tenantName": TENANT.project,
        "availabilityZone": "nova",
        "flavorName": "m1.small", "otherFlavorName": "m1.medium",
        // No host has as much memory.
        "hugeFlavorName": "m1.huge",
        "imageName": "img", "networkName": "shoot", "keyName": "k", "securityGroup": "sg",
        "volumeType": "fake", "imageToVolume": true,
    });
    if let (Some(target), Some(tenant)) = (target.as_object_mut(), tenant.as_object()) {
        target.extend(tenant.clone());
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_keystone_and_the_ids_of_the_installation() {
        let target = describe("http://127.0.0.1:1/v3", &json!({ "networkID": "n", "subnetID": "s" }));
        for (name, expected) in
            [("authURL", "http://127.0.0.1:1/v3"), ("networkID", "n"), ("subnetID", "s"), ("username", "mcm")]
        {
            assert_eq!(target[name], expected);
        }
    }
}
