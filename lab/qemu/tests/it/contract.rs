//! The driver keeps the contract of all drivers, on this host and its clock.

use cloud_fakes::one_host::contract;

use crate::fixture::Fixture;

/// Shows HST-23.
#[tokio::test(flavor = "multi_thread")]
async fn the_qemu_driver_keeps_the_contract_and_leaves_nothing_behind() {
    contract::keeps(|| Fixture::new("the_qemu_driver_keeps_the_contract_and_leaves_nothing_behind")).await;
}
