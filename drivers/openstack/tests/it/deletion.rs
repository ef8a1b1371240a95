//! What is deleted, and what is not called deleted.

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Instead, Rule};
use driver::{Call, Code, Driver};
use tokio::time::Instant;

use crate::memory::{
    CLUSTER, MACHINE, Memory, NOTHING, ONE_EACH, ROLE, create_whole, known, listed, own_spec, request, spec, stub,
};

/// Shows OST-W9.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_deleted_behind_our_back_takes_its_port_and_volume_with_it_in_the_end() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    let made = create_whole(&memory.driver(), &request).await.unwrap();
    memory.with(|cloud, now| {
        cloud.remove_server(now, MACHINE);
    });
    assert_eq!((memory.count().ports, memory.count().volumes), (1, 0), "Nova removes the volume, and never the port");
    memory.driver().delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-W4.
#[tokio::test(start_paused = true)]
async fn a_server_whose_metadata_lost_the_tags_is_deleted_by_its_id_and_not_called_deleted_by_its_name() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    let made = create_whole(&memory.driver(), &request).await.unwrap();
    memory.with(|cloud, _| cloud.servers[0].metadata.clear());
    let error = memory.driver().delete(&Call::default(), &stub(&request, "")).await.unwrap_err();
    assert_eq!((error.code(), memory.count()), (Code::FailedPrecondition, ONE_EACH));
    assert!(error.message().contains("restore them or delete it by hand"), "{error}");
    memory.driver().delete(&Call::default(), &stub(&request, made.provider_id.as_str())).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-C7.
#[tokio::test(start_paused = true)]
async fn a_server_of_another_cluster_is_not_deleted_whatever_a_provider_id_says() {
    let memory = Memory::new(Settings::default());
    let theirs = ("kubernetes.io-cluster-theirs", "1");
    let id = memory.with(|cloud, now| cloud.plant(now, MACHINE, &[theirs, ROLE]));
    let bare = memory.with(|cloud, now| cloud.plant(now, "somebody-s", &[]));
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
async fn the_collector_removes_one_of_two_servers_and_leaves_the_other_with_its_port() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    let made = create_whole(&memory.driver(), &request).await.unwrap();
    let double = memory.with(|cloud, now| cloud.plant(now, MACHINE, &[CLUSTER, ROLE]));
    let id = format!("openstack:///RegionOne/{double}");
    memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap();
    assert_eq!(memory.count(), ONE_EACH);
    assert_eq!(listed(&memory, &request).await, [(made.provider_id.as_str().to_owned(), MACHINE.to_owned())]);
}

/// Shows OST-W8.
#[tokio::test(start_paused = true)]
async fn a_port_that_a_server_uses_by_now_is_not_collected() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    create_whole(&memory.driver(), &request).await.unwrap();
    let (port, volume) = memory.with(|cloud, _| (cloud.ports[0].id.clone(), cloud.volumes[0].id.clone()));
    for id in [format!("openstack:///RegionOne/port/{port}"), format!("openstack:///RegionOne/volume/{volume}")] {
        let error = memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap_err();
        assert_eq!(error.code(), Code::Aborted, "{error}");
    }
    assert_eq!(memory.count(), ONE_EACH);
}

/// Shows OST-W10.
#[tokio::test(start_paused = true)]
async fn a_conflict_while_deleting_is_waited_for() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    create_whole(&memory.driver(), &request).await.unwrap();
    let refused = Instead::openstack(409, "Cannot 'delete' instance while it is in task_state spawning");
    memory.rule(Rule::next(Fault::AnsweredBefore(refused), |asked| asked.method == "DELETE").times(3));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// A machine whose port has no mark: the reference adopts a port without tagging it.
async fn with_untagged_port(memory: &Memory) -> driver::MachineRequest {
    let request = request(own_spec());
    let made = create_whole(&memory.driver(), &request).await.unwrap();
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
async fn delete_that_ends_anywhere_leaves_no_untagged_port() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            let request = with_untagged_port(&memory).await;
            memory.asked();
            memory.rule(Rule::next(fault.clone(), move |asked| asked.number == at));
            let driver = memory.driver();
            let call = Call::default();
            let ended = tokio::time::timeout(std::time::Duration::from_mins(1), driver.delete(&call, &request)).await;
            memory.calm();
            memory.driver().delete(&Call::default(), &request).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
            if ended.is_ok() {
                assert!(at > 6, "{at} calls are too few to be all");
                break;
            }
        }
    }
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn delete_goes_on_if_a_port_cannot_be_tagged() {
    let memory = Memory::new(Settings::default());
    let request = with_untagged_port(&memory).await;
    let refused = Fault::AnsweredBefore(Instead::openstack(403, "rule:update_port is disallowed by policy"));
    memory.rule(Rule::next(refused, |asked| asked.method == "PUT").always());
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-17.
#[tokio::test(start_paused = true)]
async fn delete_leaves_an_untagged_port_that_nothing_uses() {
    let memory = Memory::new(Settings::default());
    let request = with_untagged_port(&memory).await;
    memory.with(|cloud, now| cloud.remove_server(now, MACHINE));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count().ports, 1, "whose it is cannot be known any more");
}

/// Shows OST-22.
#[tokio::test(start_paused = true)]
async fn delete_survives_a_nova_that_fails_for_a_moment() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
    let made = create_whole(&memory.driver(), &request).await.unwrap();
    let request = known(&request, made.provider_id.as_str());
    let broken = || Fault::AnsweredBefore(Instead::openstack(500, "Unexpected API Error. SADeprecationWarning"));
    memory.rule(Rule::next(broken(), |asked| asked.method == "DELETE").times(2));
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
    let made = create_whole(&memory.driver(), &request).await.unwrap();
    let request = known(&request, made.provider_id.as_str());
    memory.rule(Rule::next(broken(), |asked| asked.method == "DELETE").always());
    let begun = Instant::now();
    let error = memory.driver().delete(&Call::default(), &request).await.unwrap_err();
    assert_eq!((error.code(), memory.count()), (Code::Unavailable, ONE_EACH), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "a lasting failure is reported soon");
    memory.calm();
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-21.
#[tokio::test(start_paused = true)]
async fn delete_reports_why_cinder_refuses_after_a_minute() {
    let memory = Memory::new(Settings::default());
    let request = request(own_spec());
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
    memory.calm();
    memory.driver().delete(&Call::default(), &request).await.unwrap();
    assert_eq!(memory.count(), NOTHING);
}

/// Shows OST-C7.
#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_are_read_and_what_is_not_ours_is_left_out() {
    let memory = Memory::new(Settings { page: 2, ..Settings::default() });
    memory.with(|cloud, now| {
        for at in 0..5 {
            cloud.plant(now, &format!("machine-{at}"), &[CLUSTER, ROLE]);
            cloud.plant(now, &format!("other-{at}"), &[CLUSTER]);
        }
    });
    let listed = listed(&memory, &request(own_spec())).await;
    let names: Vec<_> = listed.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["machine-0", "machine-1", "machine-2", "machine-3", "machine-4"]);
}
