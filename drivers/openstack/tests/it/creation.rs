//! Tests of create.

use std::time::Duration;

use cloud_fakes::openstack::{Names, Settings};
use cloud_fakes::proxy::Fault;
use driver::{Call, Code, Driver};
use rstest::rstest;
use serde_json::{Value, json};

use crate::memory::{
    CLUSTER, Count, MACHINE, Memory, NOTHING, ONE_EACH, ROLE, UID, create_and_initialize, fields, known, listed, on,
    request, secret_with, spec, spec_with, spec_with_port_and_volume, with_secret,
};

/// Shows OST-8.
#[tokio::test(start_paused = true)]
async fn server_has_machine_name_address_and_provider_id() {
    let memory = Memory::new(Settings::default());
    let made = create_and_initialize(&memory.driver(), &request(spec_with_port_and_volume())).await.unwrap();
    let server = memory.with(|cloud, _| cloud.servers[0].clone());
    assert_eq!(made.provider_id.as_str(), format!("openstack:///RegionOne/{}", server.id));
    assert_eq!((made.node_name.as_str(), server.name.as_str()), (MACHINE, MACHINE));
    assert_eq!(made.addresses.len(), 1);
    assert_eq!(server.metadata["millwright-machine-uid"], UID);
    let (port, volume) = memory.with(|cloud, _| (cloud.ports[0].clone(), cloud.volumes[0].clone()));
    assert_eq!((port.name.as_str(), volume.name.as_str()), (MACHINE, MACHINE));
    assert_eq!(port.tags, [CLUSTER.0, ROLE.0]);
    assert_eq!((port.device, volume.server), (server.id.clone(), server.id));
}

/// Shows OST-7.
#[tokio::test(start_paused = true)]
async fn unwrapped_fields_and_network_names_make_the_same_server() {
    let memory = Memory::new(Settings::default());
    let mut bare = fields();
    bare.as_object_mut().unwrap().remove("networkID");
    bare["networks"] = json!([{ "name": "shoot", "podNetwork": true }]);
    create_and_initialize(&memory.driver(), &request(bare)).await.unwrap();
    memory.with(|cloud, _| {
        assert_eq!(cloud.servers[0].asked["server"]["networks"], json!([{ "uuid": "net-1" }]));
        assert_eq!(cloud.ports[0].pairs.len(), 2);
    });
}

/// Shows OST-W2.
#[tokio::test(start_paused = true)]
async fn missing_pod_networks_are_added_in_one_update() {
    let memory = Memory::new(Settings::default());
    let (driver, request) = (memory.driver(), request(spec()));
    let made = driver.create(&Call::default(), &request).await.unwrap();
    memory.with(|cloud, _| cloud.ports[0].pairs.push(json!({ "ip_address": "192.168.0.1" })));
    let known = known(&request, made.provider_id.as_str());
    let error = driver.status(&Call::default(), &known).await.unwrap_err();
    assert_eq!(error.code(), Code::Uninitialized);
    assert_eq!(error.found().unwrap().provider_id, made.provider_id);
    memory.asked();
    driver.initialize(&Call::default(), &known).await.unwrap();
    assert_eq!(memory.asked().iter().filter(|asked| asked.starts_with("PUT")).count(), 1);
    let pairs = memory.with(|cloud, _| cloud.ports[0].pairs.clone());
    let pairs: Vec<_> = pairs.iter().map(|pair| pair["ip_address"].as_str().unwrap()).collect();
    assert_eq!(pairs, ["192.168.0.1", "100.96.0.0/11", "fd00::/64"]);
    driver.status(&Call::default(), &known).await.unwrap();
}

/// Shows OST-W6.
#[tokio::test(start_paused = true)]
async fn younger_of_two_servers_of_one_machine_is_deleted() {
    let memory = Memory::new(Settings { builds_for: Duration::from_secs(3), ..Settings::default() });
    let (driver, request) = (memory.driver(), request(spec()));
    // The first request takes effect late: after the second process has found no server.
    memory.rule(on("POST", "/servers", Fault::Delay(Duration::from_secs(2))));
    let late = memory.driver();
    let call = Call::default();
    let (first, second) = tokio::join!(late.create(&call, &request), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        driver.create(&call, &request).await
    });
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.provider_id, second.provider_id, "both select the older one");
    assert_eq!(memory.count().servers, 1);
}

/// Modified Novas document another search than upstream.
/// Shows OST-16.
#[rstest]
#[case(Names::Pattern)]
#[case(Names::Letters)]
#[case(Names::Never)]
#[tokio::test(start_paused = true)]
async fn create_makes_one_server_with_any_name_search_of_nova(#[case] names: Names) {
    let memory = Memory::new(Settings { names, builds_for: Duration::from_secs(9), ..Settings::default() });
    memory.with(|cloud, now| cloud.plant(now, &format!("{MACHINE}-2"), &[CLUSTER, ROLE]));
    let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
    let early = Call::within(Duration::from_secs(2));
    assert_eq!(driver.create(&early, &request).await.unwrap_err().code(), Code::DeadlineExceeded);
    let made = create_and_initialize(&driver, &request).await.unwrap();
    assert_eq!(memory.count(), Count { servers: 2, ports: 1, volumes: 1 }, "one server, and the one with another name");
    driver.delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!(memory.count(), Count { servers: 1, ports: 0, volumes: 0 });
}

/// Shows OST-16.
#[tokio::test(start_paused = true)]
async fn delete_finds_the_server_of_an_interrupted_create() {
    let slow = Settings { names: Names::Never, builds_for: Duration::from_secs(9), ..Settings::default() };
    let memory = Memory::new(slow);
    let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
    driver.create(&Call::within(Duration::from_secs(2)), &request).await.unwrap_err();
    driver.delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-18.
#[tokio::test(start_paused = true)]
async fn create_adopts_a_port_without_a_cluster_tag() {
    for (tags, adopted) in [(vec![], true), (vec!["of-a-user"], true), (vec!["kubernetes.io-cluster-theirs"], false)] {
        let memory = Memory::new(Settings::default());
        let request = request(spec_with_port_and_volume());
        memory.rule(on("POST", "/servers", Fault::HangBefore));
        let driver = memory.driver();
        let killed = tokio::time::timeout(Duration::from_mins(1), driver.create(&Call::default(), &request)).await;
        assert!(killed.is_err());
        let left = memory.with(|cloud, _| {
            cloud.ports[0].description.clear();
            cloud.ports[0].tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            cloud.ports[0].id.clone()
        });
        let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
        assert_eq!(memory.count().ports, if adopted { 1 } else { 2 }, "{tags:?}");
        memory.with(|cloud, _| {
            let used = cloud.ports.iter().find(|port| !port.device.is_empty()).unwrap();
            assert_eq!(used.id == left, adopted, "{tags:?}");
            assert!([CLUSTER.0, ROLE.0].iter().all(|tag| used.tags.contains(&(*tag).to_owned())), "{:?}", used.tags);
            assert!(!adopted || tags.iter().all(|tag| used.tags.contains(&(*tag).to_owned())), "{:?}", used.tags);
        });
        memory.driver().delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
        assert_eq!(memory.count().ports, usize::from(!adopted), "{tags:?}");
    }
}

/// Shows OST-W6.
#[tokio::test(start_paused = true)]
async fn duplicate_server_is_listed_for_orphan_deletion() {
    let memory = Memory::new(Settings::default());
    let request = request(spec());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let uid = ("millwright-machine-uid", UID);
    let duplicate = memory.with(|cloud, now| cloud.plant(now, MACHINE, &[CLUSTER, ROLE, uid]));
    let found = memory.driver().status(&Call::default(), &request).await.unwrap();
    assert_eq!(found.provider_id, made.provider_id);
    assert_eq!(listed(&memory, &request).await.len(), 2);
    let again = memory.driver().create(&Call::default(), &request).await.unwrap();
    assert_eq!(again.provider_id, made.provider_id);
    assert!(memory.with(|cloud, _| cloud.servers.iter().all(|server| server.id != duplicate)));
}

/// Shows OST-C5.
#[tokio::test(start_paused = true)]
async fn server_without_a_valid_host_is_cleaned_up() {
    let slow = Settings {
        builds_for: Duration::from_secs(2),
        volume_builds_for: Duration::from_secs(1),
        ..Settings::default()
    };
    let memory = Memory::new(slow);
    let mut huge = spec_with_port_and_volume();
    huge["spec"]["flavorName"] = json!(Settings::HUGE_FLAVOR);
    let (driver, request) = (memory.driver(), request(huge));
    let error = driver.create(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("No valid host was found"), "{error}");
    assert_eq!(memory.count(), NOTHING);
    memory.asked();
    let held = driver.create(&Call::default(), &request).await.unwrap_err();
    assert_eq!((held.code(), memory.asked().len()), (Code::ResourceExhausted, 1), "the zone is blocked for a while");
}

/// Shows OST-W5.
#[tokio::test(start_paused = true)]
async fn server_that_failed_during_a_restart_is_deleted_and_reported() {
    let memory = Memory::new(Settings { room: 0, builds_for: Duration::from_secs(2), ..Settings::default() });
    let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
    let _dropped = tokio::time::timeout(Duration::from_millis(500), driver.create(&Call::default(), &request)).await;
    assert_eq!(memory.count(), ONE_EACH);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let restarted = memory.driver();
    assert_eq!(restarted.status(&Call::default(), &request).await.unwrap_err().code(), Code::NotFound);
    let error = restarted.create(&Call::default(), &request).await.unwrap_err();
    assert_eq!((error.code(), memory.count()), (Code::ResourceExhausted, NOTHING));
    memory.with(|cloud, _| cloud.settings.room = 1);
    create_and_initialize(&memory.driver(), &request).await.unwrap();
}

/// Shows OST-9.
#[rstest]
#[case(json!({ "imageName": "nope" }), Code::InvalidArgument, "spec.imageName: Invalid value: \"nope\"")]
#[case(json!({ "imageName": "twice" }), Code::InvalidArgument, "has 2 resources with this name")]
#[case(json!({ "flavorName": "nope" }), Code::ResourceExhausted, "has no flavor \"nope\"")]
#[case(json!({ "availabilityZone": "mars" }), Code::InvalidArgument, "availability zone is not available")]
#[case(json!({ "keyName": "nope" }), Code::InvalidArgument, "Invalid key_name")]
#[case(json!({ "networkID": "nope" }), Code::InvalidArgument, "Network nope could not be found")]
#[case(json!({ "subnetIDs": ["nope"] }), Code::InvalidArgument, "Subnet nope could not be found")]
#[case(json!({ "securityGroups": ["nope"] }), Code::InvalidArgument, "spec.securityGroups[0]: Invalid value: \"nope\"")]
#[case(json!({ "rootDiskType": "nope" }), Code::InvalidArgument, "Volume type with name nope")]
#[case(json!({ "region": "RegionTwo" }), Code::FailedPrecondition, "it has the regions [RegionOne]")]
#[tokio::test(start_paused = true)]
async fn unknown_resource_of_a_class_is_reported_and_cleaned_up(
    #[case] changes: Value,
    #[case] code: Code,
    #[case] told: &str,
) {
    let memory = Memory::new(Settings::default());
    let mut spec = spec_with_port_and_volume();
    spec["spec"].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let error = memory.driver().create(&Call::default(), &request(spec)).await.unwrap_err();
    assert_eq!(error.code(), code, "{error}");
    assert!(error.message().contains(told), "{error}");
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-W1.
#[tokio::test(start_paused = true)]
async fn exceeded_quota_is_resource_exhausted_and_cleaned_up() {
    for (servers, ports, volumes) in [(0, 9, 9), (9, 0, 9), (9, 9, 0)] {
        let memory = Memory::new(Settings { servers, ports, volumes, ..Settings::default() });
        let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
        let error = driver.create(&Call::default(), &request).await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        assert!(error.message().contains("quota: of the project"), "{error}");
        assert_eq!(memory.count(), NOTHING);
        memory.with(|cloud, _| cloud.settings = Settings::default());
        create_and_initialize(&driver, &request).await.unwrap();
    }
}

/// Shows OST-3, OST-W3.
#[rstest]
#[case::credential_by_id(&[("applicationCredentialID", "ac-1"), ("applicationCredentialSecret", "mcm-secret")])]
#[case::credential_by_name(&[("applicationCredentialName", "ac"), ("applicationCredentialSecret", "mcm-secret")])]
#[case::project_by_id(&[("tenantID", "p-1"), ("tenantName", "ignored")])]
#[case::domain_by_id(&[("domainID", "default"), ("domainName", "ignored")])]
#[case::user_domain(&[("userDomainName", "Default"), ("domainName", "another"), ("tenantID", "p-1")])]
#[tokio::test(start_paused = true)]
async fn auth_method_is_accepted(#[case] changes: &[(&'static str, &str)]) {
    let memory = Memory::new(Settings::default());
    let request = with_secret(&request(spec()), secret_with(changes));
    create_and_initialize(&memory.driver(), &request).await.unwrap();
    assert_eq!(memory.count(), Count { servers: 1, ports: 1, volumes: 0 });
}

/// Shows OST-7.
#[tokio::test(start_paused = true)]
async fn config_drive_server_group_and_nova_disk_are_requested() {
    let memory = Memory::new(Settings::default());
    let changes = json!({ "useConfigDrive": true, "serverGroupID": "g-1", "rootDiskSize": 20 });
    create_and_initialize(&memory.driver(), &request(spec_with(&changes))).await.unwrap();
    let asked = memory.with(|cloud, _| cloud.servers[0].asked.clone());
    assert_eq!(
        (&asked["server"]["config_drive"], &asked["os:scheduler_hints"]["group"]),
        (&json!(true), &json!("g-1"))
    );
    assert_eq!(asked["server"]["block_device_mapping_v2"][0]["volume_size"], 20);
    assert_eq!(memory.count().volumes, 0, "Nova creates the volume");
}
