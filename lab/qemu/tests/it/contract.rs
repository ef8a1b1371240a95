//! The contract of all drivers, on this host and with its clock.

use cloud_fakes::one_host::contract;

use crate::fixture::Fixture;

/// Shows HST-23.
#[tokio::test(flavor = "multi_thread")]
async fn the_qemu_driver_satisfies_the_contract() {
    contract::keeps(|| Fixture::new("the_qemu_driver_satisfies_the_contract")).await;
}
