//! The leases of the controllers.
//!
//! They would need none: nobody else could lead here. But `status`, `explain` and `check` read from leases whether anybody acts, and in a
//! cluster without them each says that this is not known.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Context;
use inspect::leader::Component;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use runtime::Clock;
use runtime::client::Api;

use super::sample::NAMESPACE;

/// In seconds; as long as that of a process that was told nothing else.
const GOOD_FOR: i32 = 15;
/// How often they are renewed.
const EVERY: Duration = Duration::from_secs(5);
const HOLDER: &str = "millwright-dev";

/// Holds them for as long as it is polled.
pub(super) async fn hold(client: &kube::Client, clock: &Clock) -> anyhow::Result<Infallible> {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    loop {
        for component in Component::ALL {
            let lease = renewed(component, clock.now());
            renew(&leases, component.lease(), lease).await.context("failed to renew a lease")?;
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn renew(leases: &Api<Lease>, name: &str, lease: Lease) -> kube::Result<()> {
    let create = PostParams::default();
    match leases.patch(name, &PatchParams::default(), &Patch::Merge(&lease)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => leases.create(&create, &lease).await.map(drop),
        patched => patched.map(drop),
    }
}

fn renewed(component: Component, now: Timestamp) -> Lease {
    let spec = LeaseSpec {
        holder_identity: Some(HOLDER.to_owned()),
        lease_duration_seconds: Some(GOOD_FOR),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(component.lease().to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}
