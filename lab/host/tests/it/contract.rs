//! The driver keeps the contract of all drivers, on this host and its clock.

use cloud_fakes::one_host::contract;

use crate::fixture::Fixture;
use crate::namespaces::inside;

/// Shows HST-11, HST-12.
#[tokio::test(flavor = "multi_thread")]
async fn the_host_driver_keeps_the_contract_and_leaves_nothing_behind() {
    if inside("contract::the_host_driver_keeps_the_contract_and_leaves_nothing_behind") {
        contract::keeps(|| Some(Fixture::new())).await;
    }
}
