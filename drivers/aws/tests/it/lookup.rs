//! Tests of status and list.

use cloud_fakes::ec2::{Planted, Settings};
use driver::{Call, Code, Driver};

use crate::memory::{MACHINE, Memory, known, listed, request, spec};

/// Shows AWS-W4, AWS-C7.
#[tokio::test(start_paused = true)]
async fn terminated_instance_is_not_found_although_ec2_shows_it() {
    let memory = Memory::new(Settings::default());
    let driver = memory.driver();
    let made = driver.create(&Call::default(), &request(spec())).await.unwrap();
    memory.with(|cloud, now| cloud.reclaim(now, made.provider_id.as_str().rsplit('/').next().unwrap()));
    let error = driver.status(&Call::default(), &known(&request(spec()), made.provider_id.as_str())).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(listed(&driver).await.is_empty());
}

/// Shows AWS-21, AWS-C7.
#[tokio::test(start_paused = true)]
async fn list_reads_all_pages() {
    let memory = Memory::new(Settings::default());
    for at in 0..2500 {
        let tags = [
            ("kubernetes.io/cluster/shoot".to_owned(), String::new()),
            ("kubernetes.io/role/node".to_owned(), String::new()),
            ("Name".to_owned(), format!("m-{at}")),
        ];
        memory.with(|cloud, now| cloud.plant(now, Planted { tags: tags.into() }));
    }
    assert_eq!(listed(&memory.driver()).await.len(), 2500);
    assert_eq!(memory.asked().len(), 3, "a thousand per page");
}

#[tokio::test(start_paused = true)]
async fn vm_without_its_name_tag_is_found_by_id() {
    let memory = Memory::new(Settings::default());
    let tags = [("kubernetes.io/cluster/shoot".to_owned(), String::new())].into();
    let id = memory.with(|cloud, now| cloud.plant(now, Planted { tags }));
    let request = known(&request(spec()), &format!("aws:///eu-west-1/{id}"));
    let found = memory.driver().status(&Call::default(), &request).await.unwrap();
    assert_eq!(found.provider_id.as_str(), format!("aws:///eu-west-1/{id}"));
    assert_eq!(request.machine_name(), MACHINE);
}
