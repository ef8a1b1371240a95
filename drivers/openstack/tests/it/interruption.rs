//! A process that ends between any two requests leaves nothing behind permanently.

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Rule};
use driver::{Call, Driver};
use tokio_util::sync::CancellationToken;

use crate::memory::{
    Memory, NOTHING, ONE_EACH, create_and_initialize, known, listed, request, spec_with_port_and_volume, stub,
};

/// How a request is interrupted: before OpenStack receives it, or after OpenStack has executed it.
const INTERRUPTIONS: [Fault; 2] = [Fault::HangBefore, Fault::HangAfter];

/// Interrupts the work at the n-th request. Returns whether that request was reached.
async fn killed(memory: &Memory, at: usize, fault: Fault, work: impl Future<Output = ()>) -> bool {
    memory.asked();
    memory.rule(Rule::next(fault, move |asked| asked.number == at));
    let ended = tokio::time::timeout(std::time::Duration::from_mins(1), work).await;
    memory.clear_rules();
    ended.is_err()
}

async fn created(memory: &Memory) {
    create_and_initialize(&memory.driver(), &request(spec_with_port_and_volume())).await.unwrap();
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn create_killed_at_any_request_is_finished_by_the_next_process() {
    for fault in INTERRUPTIONS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                assert!(at > 12, "only {at} requests were interrupted");
                break;
            }
            let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
            let made = create_and_initialize(&driver, &request).await.unwrap();
            assert_eq!(memory.count(), ONE_EACH, "{fault:?} at {at}");
            driver.delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn delete_after_a_killed_create_removes_everything() {
    for fault in INTERRUPTIONS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                break;
            }
            memory.driver().delete(&Call::default(), &request(spec_with_port_and_volume())).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
            assert_eq!(listed(&memory, &request(spec_with_port_and_volume())).await, []);
        }
    }
}

/// Shows OST-W8.
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_killed_create_are_listed_and_deleted() {
    for fault in INTERRUPTIONS {
        let mut kinds = std::collections::BTreeSet::new();
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                break;
            }
            let request = request(spec_with_port_and_volume());
            // A port is listed only after its server is gone, so repeat.
            for _ in 0..3 {
                for (id, machine) in listed(&memory, &request).await {
                    assert_eq!(machine, request.machine_name());
                    kinds.insert(id.split('/').count());
                    memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap();
                }
            }
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
        assert_eq!(kinds.len(), 2, "servers and other resources were listed");
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn delete_killed_at_any_request_is_finished_by_the_next_process() {
    for fault in INTERRUPTIONS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            let request = request(spec_with_port_and_volume());
            let made = create_and_initialize(&memory.driver(), &request).await.unwrap();
            let to_delete = known(&request, made.provider_id.as_str());
            let deletion = async {
                memory.driver().delete(&Call::default(), &to_delete).await.unwrap();
            };
            if !killed(&memory, at, fault.clone(), deletion).await {
                assert!(at > 5, "only {at} requests were interrupted");
                break;
            }
            memory.driver().delete(&Call::default(), &to_delete).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn lost_response_leaves_one_of_each_after_the_next_attempt() {
    for at in 0.. {
        let memory = Memory::new(Settings::default());
        let (driver, request) = (memory.driver(), request(spec_with_port_and_volume()));
        memory.rule(Rule::next(Fault::ResetAfter, move |asked| asked.number == at));
        let first = create_and_initialize(&driver, &request).await;
        memory.clear_rules();
        if first.is_err() {
            create_and_initialize(&driver, &request).await.unwrap();
        } else if memory.asked().len() <= at {
            break;
        }
        assert_eq!(memory.count(), ONE_EACH, "the response to request {at} was lost");
    }
}

/// Shows OST-W5.
#[tokio::test(start_paused = true)]
async fn canceled_create_ends_and_is_continued_later() {
    let memory = Memory::new(Settings { builds_for: std::time::Duration::from_mins(5), ..Settings::default() });
    let (driver, request, token) = (memory.driver(), request(spec_with_port_and_volume()), CancellationToken::new());
    let call = Call::default().canceled_by(token.clone());
    let (made, ()) = tokio::join!(driver.create(&call, &request), async {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        token.cancel();
    });
    assert_eq!(made.unwrap_err().code(), driver::Code::Canceled);
    let status = driver.status(&Call::default(), &request).await.unwrap_err();
    assert_eq!(status.code(), driver::Code::NotFound, "create must continue: {status}");
    create_and_initialize(&driver, &request).await.unwrap();
    assert_eq!(memory.count(), ONE_EACH);
}
