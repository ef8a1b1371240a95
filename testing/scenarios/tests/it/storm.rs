//! The drain storm on the server in memory, over sockets and in real time: streams are counted per connection.

use std::sync::Arc;

use fake_apiserver::{Options, Server, loopback};
use runtime::{Clock, Random, Tasks};
use scenarios::{Environment, STORM_SCENARIOS, run};

use crate::drain::add_kube_controllers;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute of real time; `cargo xtask e2e drain-storm --in-memory` runs it"]
async fn three_hundred_drains_block_no_write() {
    let clock = Clock::system();
    let server = Server::new(Options::new(Arc::new(move || clock.now()), 1));
    for definition in api::crd::definitions() {
        assert!(server.insert(&definition).is_ok(), "the CRDs must be accepted");
    }
    let running = loopback::serve(server.clone(), loopback::Options::default()).await.unwrap();
    let folder = std::env::temp_dir().join(format!("drain-storm-{}", Random::from_entropy().number()));
    std::fs::create_dir_all(&folder).unwrap();
    let kubeconfig = folder.join("kubeconfig");
    running.write_kubeconfig(&kubeconfig).unwrap();
    let environment = Environment::real(&kubeconfig).unwrap();
    let tasks = Tasks::new();
    let environment = add_kube_controllers(environment, server, &tasks);
    let [scenario] = STORM_SCENARIOS else { panic!("one scenario") };
    let result = run(scenario, &environment).await;
    tasks.stop();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(result.failure, None);
}
