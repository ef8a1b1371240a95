//! Scenario of hundreds of drains at the same time.
//!
//! Each watch occupies an HTTP/2 stream, and API servers allow a hundred streams per connection. A request beyond
//! that limit does not fail but waits. A controller that opens a watch for every node it drains would therefore block
//! its own writes during many drains.

use std::time::Duration;

use api::{Machine, MachinePhase};
use driver_virtual::node_life::RUNDOWN_ANNOTATION;
use futures::FutureExt;
use kube::api::{Patch, PatchParams};
use runtime::client::Api;
use serde_json::json;

use crate::result::ensure;
use crate::workload::is_leaving;
use crate::{Failure, Fixture, Scenario};

/// Every scenario of many drains. They need a network, because streams are limited per connection.
pub const STORM_SCENARIOS: &[Scenario] = &[Scenario {
    name: "three_hundred_drains_block_no_write",
    run: |fixture| three_hundred_drains_block_no_write(fixture).boxed(),
}];

const NODES: usize = 300;

/// Longer than all delete requests take together, so that most drains run at the same time.
const RUNDOWN: Duration = Duration::from_secs(50);

/// Minimum number of concurrent drains for a valid test: more than the streams of a connection.
const MIN_CONCURRENT: usize = 150;

/// Maximum time of a write while three programs and three hundred kubelets share two processors. A write that waits for
/// a stream takes as long as the drains.
const MAX_WRITE_TIME: Duration = Duration::from_secs(5);

async fn three_hundred_drains_block_no_write(fixture: &Fixture) -> Result<(), Failure> {
    let _process = fixture.start()?;
    fixture.create_pod_class().await?;
    for n in 0..NODES {
        fixture.begin_node(n, &json!({ "drainTimeout": "10m" })).await?;
    }
    for n in 0..NODES {
        fixture.until_phase(n, MachinePhase::Running).await?;
        let pod = json!({
            "metadata": { "annotations": { RUNDOWN_ANNOTATION: format!("{}s", RUNDOWN.as_secs()) } },
            "spec": { "terminationGracePeriodSeconds": 2 * RUNDOWN.as_secs() },
        });
        fixture.place(&format!("p-{n}"), n, &pod).await?;
    }
    fixture
        .until_pods("all run", |pods| pods.iter().filter(|pod| crate::workload::is_ready(pod)).count() == NODES)
        .await?;
    for n in 0..NODES {
        fixture.delete(n).await?;
    }
    fixture.until_pods("all pods are terminating", |pods| pods.iter().all(is_leaving)).await?;
    let leaving = fixture.pods().await?.len();
    ensure(leaving >= MIN_CONCURRENT, || {
        format!("only {leaving} nodes are drained at the same time: this host is too slow")
    })?;

    // Uses the connections of the controller: clients of one server share them. The pods that were evicted last
    // terminate last.
    let machines: Api<Machine> = Api::namespaced(fixture.environment.client("machine-controller"), &fixture.namespace);
    for n in NODES - 20..NODES {
        let begin = fixture.environment.clock.instant();
        let patch = json!({ "metadata": { "annotations": { "storm.millwright.dev/probe": n.to_string() } } });
        let written = machines.patch(&fixture.machine_name(n), &PatchParams::default(), &Patch::Merge(patch)).await;
        written.map_err(Failure::api("patch a Machine during the drains"))?;
        ensure(begin.elapsed() < MAX_WRITE_TIME, || format!("a write took {:?}", begin.elapsed()))?;
    }
    let begin = fixture.environment.clock.instant();
    fixture.begin_node(NODES, &json!({})).await?;
    fixture
        .until_machine(NODES, "has the provider ID of its VM", |machine| !machine.spec.provider_id.is_empty())
        .await?;
    ensure(begin.elapsed() < MAX_WRITE_TIME, || format!("a new machine got its VM after {:?}", begin.elapsed()))?;
    fixture.until_pods("all pods are gone", <[_]>::is_empty).await?;
    for n in 0..NODES {
        fixture.until_gone(n).await?;
    }
    Ok(())
}
