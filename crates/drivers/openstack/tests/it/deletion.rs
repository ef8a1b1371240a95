//! What is deleted, and what is not called deleted.

use driver::{Call, Code, Driver};
use driver_testing::openstack::Settings;
use driver_testing::proxy::{Fault, Instead, Rule};

use crate::memory::{
    CLUSTER, MACHINE, Memory, NOTHING, ONE_EACH, ROLE, create_whole, known, listed, own_spec, request, spec, stub,
};

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
