//! The OpenStack that is asked over the network: the one that `MILLWRIGHT_OPENSTACK` names, or our own on loopback.
//!
//! The value is the path of a file that says in JSON where Keystone is, who asks and what the project has. `cargo xtask openstack start`
//! writes one; so can whoever has an OpenStack of their own.

use std::sync::Arc;

use api::view::SecretData;
use cloud_fakes::openstack::{Settings, Stack};
use driver_common::http::{Client, Transport};
use driver_openstack::OpenStackDriver;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Where the tests run.
pub(crate) struct Target {
    facts: Value,
    /// Ours, if no other was named.
    _own: Option<Stack>,
}

impl Target {
    pub(crate) async fn find() -> Self {
        #[allow(clippy::disallowed_methods, reason = "a test is told by its environment where it runs")]
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

    /// Whether a root disk can be made from an image; says so if not.
    #[allow(clippy::print_stdout, reason = "whoever runs the tests is to read what was not shown")]
    pub(crate) fn has_volumes(&self, test: &str) -> bool {
        let has = !self.text("volumeType").is_empty() && self.facts["imageToVolume"] == true;
        if !has {
            println!("skipped: {test} needs a Cinder that makes volumes from images");
        }
        has
    }

    pub(crate) fn secret(&self) -> SecretData {
        let keys = ["authURL", "username", "password", "domainName", "tenantName"];
        let user_data = ("userData", "#cloud-config\n");
        keys.iter().map(|key| (*key, self.text(key))).chain([user_data]).collect()
    }

    /// A class for this project, whose servers are told from those of others by the cluster's tag.
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

/// A driver that asks over the network.
pub(crate) fn driver(through: impl Fn(Client) -> Arc<dyn Transport> + Send + Sync + 'static) -> OpenStackDriver {
    #[allow(clippy::disallowed_methods, reason = "tokens of a real Keystone end in real time")]
    let clock = Arc::new(Timestamp::now);
    OpenStackDriver::new(Arc::new(move |tls| Ok(through(Client::of(tls)?))), clock, Arc::new(|| 0.0))
}
