//! A 404 proves that a resource is gone only if the service itself reports it for that resource.

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Instead, Rule};
use driver::{Call, Code, Driver, DriverError, MachineRequest};
use rstest::rstest;
use serde_json::json;

use crate::memory::{
    Memory, NOTHING, ONE_EACH, create_and_initialize, known, request, spec_with_port_and_volume, stub,
};

/// Replaces all responses below this path.
fn answers(memory: &Memory, method: &'static str, path: &'static str, instead: Instead) {
    let hit = move |asked: &cloud_fakes::proxy::Asked| asked.method == method && asked.path.contains(path);
    memory.rule(Rule::next(Fault::AnsweredBefore(instead), hit).always());
}

/// Responses that may replace those of a service.
fn bodies() -> [(u16, String); 5] {
    let own = json!({ "itemNotFound": { "code": 404, "message": "The resource could not be found." } });
    [
        (404, "<html>404</html>".to_owned()),
        (404, String::new()),
        (404, json!({ "message": "no Route matched with those values" }).to_string()),
        (404, own.to_string()),
        (200, json!({}).to_string()),
    ]
}

async fn delete(memory: &Memory, request: &MachineRequest) -> Result<(), DriverError> {
    memory.driver().delete(&Call::default(), request).await.map(drop)
}

/// Shows OST-15.
#[rstest]
#[case::servers_by_name("/compute/v2.1/servers/detail")]
#[case::ports("/network/v2.0/ports?")]
#[case::volumes("/volume/v3/p-1/volumes/detail")]
#[tokio::test(start_paused = true)]
async fn delete_fails_if_a_list_is_404(#[case] path: &'static str) {
    for (status, body) in bodies() {
        let memory = Memory::new(Settings::default());
        let request = request(spec_with_port_and_volume());
        let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
        for request in [request.clone(), known(&request, made.provider_id.as_str())] {
            answers(&memory, "GET", path, Instead { status, body: body.clone(), retry_after: None });
            let error = delete(&memory, &request).await.unwrap_err();
            assert_eq!(error.code(), Code::Unavailable, "{status} {body}: {error}");
            memory.clear_rules();
        }
        delete(&memory, &request).await.unwrap();
        assert_eq!(memory.count(), NOTHING);
    }
}

/// Shows OST-15.
#[rstest]
#[case::server("GET", "/compute/v2.1/servers/s-")]
#[case::deletion_of_a_server("DELETE", "/compute/v2.1/servers/s-")]
#[case::deletion_of_a_port("DELETE", "/network/v2.0/ports/")]
#[tokio::test(start_paused = true)]
async fn delete_fails_if_a_gateway_returns_404(#[case] method: &'static str, #[case] path: &'static str) {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    let request = known(&request, made.provider_id.as_str());
    answers(&memory, method, path, Instead::gateway(404));
    let error = delete(&memory, &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("the service itself did not respond"), "{error}");
    memory.clear_rules();
    delete(&memory, &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-15.
#[rstest]
#[case::nova("/compute/", Code::Unavailable)]
#[case::neutron("/network/", Code::Unavailable)]
#[case::cinder("/volume/", Code::Unavailable)]
#[case::glance("/image/", Code::Unavailable)]
#[case::keystone("/identity/", Code::InvalidArgument)]
#[tokio::test(start_paused = true)]
async fn create_fails_and_loses_nothing_if_a_gateway_returns_404(#[case] service: &'static str, #[case] code: Code) {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    for method in ["GET", "POST"] {
        answers(&memory, method, service, Instead::gateway(404));
    }
    let error = memory.driver().create(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    memory.clear_rules();
    create_and_initialize(&memory.driver(), &request).await.unwrap();
    assert_eq!(memory.count(), ONE_EACH);
}

/// Shows OST-15.
#[tokio::test(start_paused = true)]
async fn status_is_not_not_found_if_a_gateway_returns_404() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    let known = known(&request, made.provider_id.as_str());
    for service in ["/compute/", "/network/"] {
        answers(&memory, "GET", service, Instead::gateway(404));
        let error = memory.driver().status(&Call::default(), &known).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
        memory.clear_rules();
    }
}

/// Shows OST-15.
#[tokio::test(start_paused = true)]
async fn leftovers_stay_listed_if_a_gateway_returns_404() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let lost = Fault::HangBefore;
    memory.rule(Rule::next(lost, |asked| asked.method == "POST" && asked.path.ends_with("/servers")));
    let driver = memory.driver();
    let killed =
        tokio::time::timeout(std::time::Duration::from_mins(1), driver.create(&Call::default(), &request)).await;
    assert!(killed.is_err());
    let listed = crate::memory::listed(&memory, &request).await;
    assert_eq!(listed.len(), 2, "a port and a volume");
    for (id, _) in listed {
        for method in ["GET", "DELETE"] {
            answers(
                &memory,
                method,
                if id.contains("/port/") { "/network/" } else { "/volume/" },
                Instead::gateway(404),
            );
            let error = delete(&memory, &stub(&request, &id)).await.unwrap_err();
            assert_eq!(error.code(), Code::Unavailable, "{error}");
            memory.clear_rules();
        }
    }
}
