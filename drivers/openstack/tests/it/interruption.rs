//! A process that dies between any two calls leaves nothing behind for good.

use cloud_fakes::openstack::Settings;
use cloud_fakes::proxy::{Fault, Rule};
use driver::{Call, Driver};
use tokio_util::sync::CancellationToken;

use crate::memory::{Memory, NOTHING, ONE_EACH, create_whole, known, listed, own_spec, request, stub};

/// How a process dies at its n-th request: before OpenStack hears of it, or after it has done what was asked.
const DEATHS: [Fault; 2] = [Fault::HangBefore, Fault::HangAfter];

/// Runs until the n-th request and drops everything there; whether it came that far.
async fn killed(memory: &Memory, at: usize, fault: Fault, work: impl Future<Output = ()>) -> bool {
    memory.asked();
    memory.rule(Rule::next(fault, move |asked| asked.number == at));
    let ended = tokio::time::timeout(std::time::Duration::from_mins(1), work).await;
    memory.calm();
    ended.is_err()
}

async fn created(memory: &Memory) {
    create_whole(&memory.driver(), &request(own_spec())).await.unwrap();
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn a_create_that_is_killed_at_any_call_is_finished_by_the_next_process_with_one_of_each() {
    for fault in DEATHS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                assert!(at > 12, "{at} calls are too few to be all");
                break;
            }
            let (driver, request) = (memory.driver(), request(own_spec()));
            let made = create_whole(&driver, &request).await.unwrap();
            assert_eq!(memory.count(), ONE_EACH, "{fault:?} at {at}");
            driver.delete(&Call::default(), &known(&request, made.provider_id.as_str())).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn a_machine_whose_create_was_killed_at_any_call_is_deleted_without_a_rest() {
    for fault in DEATHS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                break;
            }
            memory.driver().delete(&Call::default(), &request(own_spec())).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
            assert_eq!(listed(&memory, &request(own_spec())).await, []);
        }
    }
}

/// Shows OST-W8.
#[tokio::test(start_paused = true)]
async fn what_a_killed_create_left_is_listed_and_collected_when_its_machine_is_gone() {
    for fault in DEATHS {
        let mut kinds = std::collections::BTreeSet::new();
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            if !killed(&memory, at, fault.clone(), created(&memory)).await {
                break;
            }
            let request = request(own_spec());
            // Each is listed until the one before it is gone: the port while its server is there is not.
            for _ in 0..3 {
                for (id, machine) in listed(&memory, &request).await {
                    assert_eq!(machine, request.machine_name());
                    kinds.insert(id.split('/').count());
                    memory.driver().delete(&Call::default(), &stub(&request, &id)).await.unwrap();
                }
            }
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
        assert_eq!(kinds.len(), 2, "servers, and what was made for them, were listed");
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_killed_at_any_call_is_finished_by_the_next_process() {
    for fault in DEATHS {
        for at in 0.. {
            let memory = Memory::new(Settings::default());
            let request = request(own_spec());
            let made = create_whole(&memory.driver(), &request).await.unwrap();
            let doomed = known(&request, made.provider_id.as_str());
            let deletion = async {
                memory.driver().delete(&Call::default(), &doomed).await.unwrap();
            };
            if !killed(&memory, at, fault.clone(), deletion).await {
                assert!(at > 5, "{at} calls are too few to be all");
                break;
            }
            memory.driver().delete(&Call::default(), &doomed).await.unwrap();
            assert_eq!(memory.count(), NOTHING, "{fault:?} at {at}");
        }
    }
}

/// Shows OST-W7.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_at_any_call_leaves_one_of_each_after_the_next_attempt() {
    for at in 0.. {
        let memory = Memory::new(Settings::default());
        let (driver, request) = (memory.driver(), request(own_spec()));
        memory.rule(Rule::next(Fault::ResetAfter, move |asked| asked.number == at));
        let first = create_whole(&driver, &request).await;
        memory.calm();
        if first.is_err() {
            create_whole(&driver, &request).await.unwrap();
        } else if memory.asked().len() <= at {
            break;
        }
        assert_eq!(memory.count(), ONE_EACH, "the answer to request {at} was lost");
    }
}

/// Shows OST-W5.
#[tokio::test(start_paused = true)]
async fn a_create_that_is_canceled_ends_at_once_and_is_taken_up_again() {
    let memory = Memory::new(Settings { builds_for: std::time::Duration::from_mins(5), ..Settings::default() });
    let (driver, request, token) = (memory.driver(), request(own_spec()), CancellationToken::new());
    let call = Call::default().canceled_by(token.clone());
    let (made, ()) = tokio::join!(driver.create(&call, &request), async {
        tokio::time::sleep(std::time::Duration::from_secs(30)).await;
        token.cancel();
    });
    assert_eq!(made.unwrap_err().code(), driver::Code::Canceled);
    let status = driver.status(&Call::default(), &request).await.unwrap_err();
    assert_eq!(status.code(), driver::Code::NotFound, "create is to go on: {status}");
    create_whole(&driver, &request).await.unwrap();
    assert_eq!(memory.count(), ONE_EACH);
}
