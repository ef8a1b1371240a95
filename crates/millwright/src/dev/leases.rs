//! The Leases of the controllers.
//!
//! The controllers of `dev` need no Leases, because there are no other replicas. But `status`, `explain` and `check`
//! use Leases to find out whether a controller runs.

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

/// Lease duration in seconds, the default of `--leader-elect-lease-duration`.
const DURATION_SECONDS: i32 = 15;
/// Interval of renewals.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
const HOLDER: &str = "millwright-dev";

/// Holds the Leases until the future is dropped.
pub(super) async fn hold(client: &kube::Client, clock: &Clock) -> anyhow::Result<Infallible> {
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    loop {
        for component in Component::ALL {
            let lease = renewed(component, clock.now());
            renew(&leases, component.lease(), lease).await.context("failed to renew a lease")?;
        }
        tokio::time::sleep(RENEW_INTERVAL).await;
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
        lease_duration_seconds: Some(DURATION_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..LeaseSpec::default()
    };
    let metadata = ObjectMeta { name: Some(component.lease().to_owned()), ..ObjectMeta::default() };
    Lease { metadata, spec: Some(spec) }
}
