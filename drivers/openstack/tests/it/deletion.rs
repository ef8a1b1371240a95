//! Tests of delete.

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Instead, Rule};
use driver::{Call, Code, Driver};
use tokio::time::Instant;

use crate::memory::{
    CLUSTER, MACHINE, Memory, NOTHING, ONE_EACH, ROLE, create_and_initialize, known, listed, request, spec,
    spec_with_port_and_volume, stub,
};

/// Shows OST-W9.
#[tokio::test(start_paused = true)]
async fn delete_after_external_deletion_removes_port_and_volume() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    memory.with(|cloud, now| {
        cloud.remove_server(now, MACHINE);
    });
    assert_eq!((memory.count().ports, memory.count().volumes), (1, 0), "Nova deletes the volume but never the port");
    memory.driver().delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-W4.
#[tokio::test(start_paused = true)]
async fn server_without_tags_is_deleted_only_by_its_id() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    memory.with(|cloud, _| cloud.servers[0].metadata.clear());
    let error = memory.driver().delete(&Call::default(), &stub(&request, "")).await.unwrap_err();
    assert_eq!((error.code(), memory.count()), (Code::FailedPrecondition, ONE_EACH));
    assert!(error.message().contains("restore the tags or delete the server manually"), "{error}");
    memory.driver().delete(&Call::default(), &stub(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-C7.
#[tokio::test(start_paused = true)]
async fn server_of_another_cluster_is_not_deleted() {
    let memory = Memory::new(Settings::default());
    let theirs = ("kubernetes.io-cluster-theirs", "1");
    let id = memory.with(|cloud, now| cloud.plant(now, MACHINE, &[theirs, ROLE]));
    let bare = memory.with(|cloud, now| cloud.plant(now, "untagged", &[]));
    let request = request(spec());
    for id in [id, bare] {
        let id = format!("openstack:///RegionOne/{id}");
        let error = memory.driver().delete(&Call::default(), &known(&request, &id)).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    }
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count().servers, 2);
}

/// Shows OST-C6.
#[tokio::test(start_paused = true)]
async fn orphan_deletion_of_a_duplicate_keeps_the_other_server() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    let duplicate = memory.with(|cloud, now| cloud.plant(now, MACHINE, &[CLUSTER, ROLE]));
    let id = format!("openstack:///RegionOne/{duplicate}");
    memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap();
    assert_eq!(memory.count(), ONE_EACH);
    assert_eq!(listed(&memory, &request).await, [(made.provider_id.as_str().to_owned(), MACHINE.to_owned())]);
}

/// Shows OST-W8.
#[tokio::test(start_paused = true)]
async fn port_that_is_now_in_use_is_not_deleted() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    create_and_initialize(&memory.driver(), &request).await.unwrap();
    let (port, volume) = memory.with(|cloud, _| (cloud.ports[0].id.clone(), cloud.volumes[0].id.clone()));
    for id in [format!("openstack:///RegionOne/port/{port}"), format!("openstack:///RegionOne/volume/{volume}")] {
        let error = memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap_err();
        assert_eq!(error.code(), Code::Aborted, "{error}");
    }
    assert_eq!(memory.count(), ONE_EACH);
}

/// Shows OST-W10.
#[tokio::test(start_paused = true)]
async fn conflict_during_a_delete_is_retried() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    create_and_initialize(&memory.driver(), &request).await.unwrap();
    let refused = Instead::openstack(409, "Cannot 'delete' instance while it is in task_state spawning");
    memory.rule(Rule::next(Fault::AnsweredBefore(refused), |asked| asked.method == "DELETE").times(3));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Returns a machine whose port has no mark: the reference adopts a port without tagging it.
async fn with_untagged_port(memory: &Memory) -> driver::MachineRequest {
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    memory.with(|cloud, _| {
        cloud.ports[0].tags.clear();
        cloud.ports[0].description.clear();
    });
    known(&request, made.provider_id.as_str())
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn delete_removes_an_untagged_port_of_the_server() {
    let memory = Memory::new(Settings::default());
    let request = with_untagged_port(&memory).await;
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn interrupted_delete_leaves_no_untagged_port() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            let request = with_untagged_port(&memory).await;
            memory.asked();
            memory.rule(Rule::next(fault.clone(), move |asked| asked.number == at));
            let driver = memory.driver();
            let call = Call::default();
            let ended = tokio::time::timeout(std::time::Duration::from_mins(1), driver.delete(&call, &request)).await;
            memory.clear_rules();
            memory.driver().delete(&Call::default(), &request).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
            if ended.is_ok() {
                assert!(at > 6, "only {at} requests were interrupted");
                break;
            }
        }
    }
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn delete_continues_if_a_port_cannot_be_tagged() {
    let memory = Memory::new(Settings::default());
    let request = with_untagged_port(&memory).await;
    let refused = Fault::AnsweredBefore(Instead::openstack(403, "rule:update_port is disallowed by policy"));
    memory.rule(Rule::next(refused, |asked| asked.method == "PUT").always());
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn delete_keeps_an_unused_untagged_port() {
    let memory = Memory::new(Settings::default());
    let request = with_untagged_port(&memory).await;
    memory.with(|cloud, now| cloud.remove_server(now, MACHINE));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count().ports, 1, "its owner is unknown");
}

/// Shows OST-22.
#[tokio::test(start_paused = true)]
async fn delete_succeeds_despite_transient_errors_of_nova() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    let request = known(&request, made.provider_id.as_str());
    let broken = || Fault::AnsweredBefore(Instead::openstack(500, "Unexpected API Error. SADeprecationWarning"));
    memory.rule(Rule::next(broken(), |asked| asked.method == "DELETE").times(2));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
    let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
    let request = known(&request, made.provider_id.as_str());
    memory.rule(Rule::next(broken(), |asked| asked.method == "DELETE").always());
    let begun = Instant::now();
    let error = memory.driver().delete(&Call::default(), &request).await.unwrap_err();
    assert_eq!((error.code(), memory.count()), (Code::Unavailable, ONE_EACH), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "a permanent failure is reported soon");
    memory.clear_rules();
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-21.
#[tokio::test(start_paused = true)]
async fn delete_reports_the_error_of_cinder_after_a_minute() {
    let memory = Memory::new(Settings::default());
    let request = request(spec_with_port_and_volume());
    memory.rule(Rule::next(Fault::HangBefore, |asked| asked.method == "POST" && asked.path.ends_with("/servers")));
    let driver = memory.driver();
    let killed =
        tokio::time::timeout(std::time::Duration::from_mins(1), driver.create(&Call::default(), &request)).await;
    assert!(killed.is_err());
    let refused = Instead::openstack(400, "Invalid volume: Volume has dependent snapshots.");
    let cinder = |asked: &cloud_fakes::proxy::Asked| asked.method == "DELETE" && asked.path.contains("/volumes/");
    memory.rule(Rule::next(Fault::AnsweredBefore(refused), cinder).always());
    let begun = Instant::now();
    let error = memory.driver().delete(&Call::default(), &request).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal, "{error}");
    assert!(error.message().contains("Volume has dependent snapshots"), "{error}");
    assert!(begun.elapsed() <= std::time::Duration::from_mins(1), "{:?}", begun.elapsed());
    memory.clear_rules();
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-C7.
#[tokio::test(start_paused = true)]
async fn list_reads_all_pages_and_omits_foreign_servers() {
    let memory = Memory::new(Settings { page: 2, ..Settings::default() });
    memory.with(|cloud, now| {
        for at in 0..5 {
            cloud.plant(now, &format!("machine-{at}"), &[CLUSTER, ROLE]);
            cloud.plant(now, &format!("other-{at}"), &[CLUSTER]);
        }
    });
    let listed = listed(&memory, &request(spec_with_port_and_volume())).await;
    let names: Vec<_> = listed.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["machine-0", "machine-1", "machine-2", "machine-3", "machine-4"]);
}
