//! The contract of all drivers, on this host and with its clock.

use cloud_fakes::one_host::contract;

use crate::fixture::Fixture;
use crate::namespaces::inside;

/// Shows HST-11, HST-12.
#[tokio::test(flavor = "multi_thread")]
async fn the_host_driver_satisfies_the_contract() {
    if inside("contract::the_host_driver_satisfies_the_contract") {
        contract::keeps(|| Some(Fixture::new())).await;
    }
}
