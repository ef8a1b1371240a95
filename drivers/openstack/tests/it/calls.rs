//! The number of requests per machine.

use cloud_fakes::openstack::Settings;
use driver::{Call, Driver, Reply};

use crate::memory::{Memory, create_and_initialize, known, request, spec, spec_with_port_and_volume};

/// Shows OST-12, OST-W11.
#[tokio::test(start_paused = true)]
async fn machine_needs_few_requests_and_names_are_resolved_once() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec()));
    let made = create_and_initialize(&driver, &request).await.unwrap();
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
    create_and_initialize(&driver, &request).await.unwrap();
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
async fn machine_with_its_own_port_and_volume_needs_few_more_requests() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
    create_and_initialize(&driver, &request).await.unwrap();
    driver.delete(&Call::default(), &request).await.unwrap();
    memory.asked();
    let made = create_and_initialize(&driver, &request).await.unwrap();
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
async fn requests_are_counted_under_their_service() {
    let memory = Memory::new(Settings::default());
    let kept = std::sync::Arc::new(driver::MeterBuffer::default());
    let call = Call::default().metered(kept.clone());
    memory.driver().create(&call, &request(spec_with_port_and_volume())).await.unwrap();
    let told = kept.take();
    assert!(told.iter().all(|asked| asked.reply == Reply::Success));
    let mut services: Vec<_> = told.iter().map(|asked| asked.service.as_str()).collect();
    services.sort_unstable();
    services.dedup();
    assert_eq!(services, ["cinder", "glance", "keystone", "neutron", "nova"]);
}
