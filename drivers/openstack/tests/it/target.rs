//! The OpenStack of the network tests: the one in `MILLWRIGHT_OPENSTACK`, or the fake on loopback.
//!
//! The value is the path of a JSON file with the Keystone URL, the credentials and the resources of the project. `cargo
//! xtask openstack start` writes such a file.

use std::sync::Arc;

use api::view::SecretData;
use cloud_fakes::openstack::{Settings, Stack};
use driver_common::http::{Client, Transport};
use driver_openstack::OpenStackDriver;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The OpenStack of the tests.
pub(crate) struct Target {
    facts: Value,
    /// The fake, if no other OpenStack is configured.
    _own: Option<Stack>,
}

impl Target {
    pub(crate) async fn find() -> Self {
        #[allow(clippy::disallowed_methods, reason = "the environment selects the OpenStack of the test")]
        let named = std::env::var("MILLWRIGHT_OPENSTACK").ok().filter(|path| !path.is_empty());
        if let Some(path) = named {
            let facts = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            return Self { facts, _own: None };
        }
        let own = Stack::start(Settings::default()).await.unwrap();
        let facts = json!({
            "authURL": own.auth_url(), "region": Settings::REGION, "username": Settings::USER, "password": "mcm-secret",
            "domainName": Settings::DOMAIN, "tenantName": Settings::PROJECT, "availabilityZone": Settings::ZONE,
            "flavorName": Settings::FLAVOR, "hugeFlavorName": Settings::HUGE_FLAVOR, "imageName": Settings::IMAGE,
            "networkName": Settings::NETWORK.0, "networkID": Settings::NETWORK.1, "subnetID": Settings::SUBNET,
            "keyName": Settings::KEY, "securityGroup": Settings::SECURITY_GROUP.0, "volumeType": Settings::VOLUME_TYPE,
            "imageToVolume": true,
        });
        Self { facts, _own: Some(own) }
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.facts[key].as_str().unwrap_or_default()
    }

    /// Returns whether a root disk can be created from an image; prints a notice if not.
    #[allow(clippy::print_stdout, reason = "the notice is for the person who runs the tests")]
    pub(crate) fn has_volumes(&self, test: &str) -> bool {
        let has = !self.text("volumeType").is_empty() && self.facts["imageToVolume"] == true;
        if !has {
            println!("skipped: {test} requires a Cinder that creates volumes from images");
        }
        has
    }

    pub(crate) fn secret(&self) -> SecretData {
        let keys = ["authURL", "username", "password", "domainName", "tenantName"];
        let user_data = ("userData", "#cloud-config\n");
        keys.iter().map(|key| (*key, self.text(key))).chain([user_data]).collect()
    }

    /// Returns a class for this project, with a cluster tag that separates its servers from others.
    pub(crate) fn spec(&self, cluster: &str) -> Value {
        let fields = json!({
            "imageName": self.text("imageName"), "region": self.text("region"),
            "availabilityZone": self.text("availabilityZone"), "flavorName": self.text("flavorName"),
            "keyName": self.text("keyName"), "securityGroups": [self.text("securityGroup")],
            "networkID": self.text("networkID"), "subnetIDs": [self.text("subnetID")],
            "podNetworkCIDRs": ["100.96.0.0/11", "fd00::/64"],
            "tags": { format!("kubernetes.io-cluster-{cluster}"): "1", "kubernetes.io-role-node": "1" },
        });
        crate::memory::wrapped(&fields)
    }
}

/// Returns a driver that uses the network.
pub(crate) fn driver(through: impl Fn(Client) -> Arc<dyn Transport> + Send + Sync + 'static) -> OpenStackDriver {
    #[allow(clippy::disallowed_methods, reason = "tokens of a real Keystone expire in real time")]
    let clock = Arc::new(Timestamp::now);
    OpenStackDriver::new(Arc::new(move |tls| Ok(through(Client::of(tls)?))), clock, Arc::new(|| 0.0))
}
