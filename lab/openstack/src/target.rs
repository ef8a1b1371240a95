//! The target file for tests of the driver.

use serde_json::{Value, json};

use crate::client::TENANT;

/// Returns the target of a lab with Keystone at `auth_url`; `tenant` contains the ids of the installation.
pub(crate) fn describe(auth_url: &str, tenant: &Value) -> Value {
    let mut target = json!({
        "authURL": auth_url, "region": "RegionOne", "domainName": "Default",
        "username": TENANT.name, "password": TENANT.password, "tenantName": TENANT.project,
        "availabilityZone": "nova",
        "flavorName": "m1.small", "otherFlavorName": "m1.medium",
        // A flavor with more memory than any host.
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
