//! How often OpenStack is asked for a machine.

use cloud_fakes::openstack::Settings;
use driver::{Call, Driver, Reply};

use crate::memory::{Memory, create_whole, known, own_spec, request, spec};

/// Shows OST-12, OST-W11.
#[tokio::test(start_paused = true)]
async fn a_machine_needs_few_requests_and_names_are_asked_for_once() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec()));
    let made = create_whole(&driver, &request).await.unwrap();
    let first = [
        "POST /identity/v3/auth/tokens",
        "GET /compute/v2.1/servers/detail",
        "GET /image/v2/images",
        "GET /compute/v2.1/flavors",
        "POST /compute/v2.1/servers",
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
        "PUT /network/v2.0/ports/*",
    ];
    assert_eq!(memory.asked(), first);
    let known = known(&request, made.provider_id.as_str());
    driver.status(&Call::default(), &known).await.unwrap();
    assert_eq!(memory.asked(), ["GET /compute/v2.1/servers/detail", "GET /network/v2.0/ports"]);
    driver.delete(&Call::default(), &known).await.unwrap();
    let deletion = [
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
        "DELETE /compute/v2.1/servers/*",
        "GET /compute/v2.1/servers/*",
    ];
    assert_eq!(memory.asked(), deletion);
    create_whole(&driver, &request).await.unwrap();
    let second = [
        "GET /compute/v2.1/servers/detail",
        "POST /compute/v2.1/servers",
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
        "PUT /network/v2.0/ports/*",
    ];
    assert_eq!(memory.asked(), second);
    driver.list(&Call::default(), &known.class_request()).await.unwrap();
    assert_eq!(memory.asked(), ["GET /compute/v2.1/servers/detail"]);
}

/// Shows OST-12.
#[tokio::test(start_paused = true)]
async fn a_machine_with_a_port_and_a_volume_of_its_own_needs_a_few_more() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(own_spec()));
    create_whole(&driver, &request).await.unwrap();
    driver.delete(&Call::default(), &request).await.unwrap();
    memory.asked();
    let made = create_whole(&driver, &request).await.unwrap();
    let creation = [
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
        "POST /network/v2.0/ports",
        "PUT /network/v2.0/ports/*/tags",
        "GET /volume/v3/*/volumes/detail",
        "POST /volume/v3/*/volumes",
        "GET /volume/v3/*/volumes/*",
        "POST /compute/v2.1/servers",
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
    ];
    assert_eq!(memory.asked(), creation);
    driver.delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
    let deletion = [
        "GET /compute/v2.1/servers/detail",
        "GET /network/v2.0/ports",
        "DELETE /compute/v2.1/servers/*",
        "GET /compute/v2.1/servers/*",
        "DELETE /network/v2.0/ports/*",
        "GET /volume/v3/*/volumes/detail",
    ];
    assert_eq!(memory.asked(), deletion);
    driver.list(&Call::default(), &request.class_request()).await.unwrap();
    let list = ["GET /network/v2.0/ports", "GET /volume/v3/*/volumes/detail", "GET /compute/v2.1/servers/detail"];
    assert_eq!(memory.asked(), list);
}

/// Shows OST-12.
#[tokio::test(start_paused = true)]
async fn each_request_is_counted_under_its_service() {
    let memory = Memory::new(Settings::default());
    let kept = std::sync::Arc::new(driver::MeterBuffer::default());
    let call = Call::default().metered(kept.clone());
    memory.driver().create(&call, &request(own_spec())).await.unwrap();
    let told = kept.take();
    assert!(told.iter().all(|asked| asked.reply == Reply::Success));
    let mut services: Vec<_> = told.iter().map(|asked| asked.service.as_str()).collect();
    services.sort_unstable();
    services.dedup();
    assert_eq!(services, ["cinder", "glance", "keystone", "neutron", "nova"]);
}
