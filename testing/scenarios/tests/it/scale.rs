//! A thousand Machines, with a test clock.

use scenarios::{SCALE_SCENARIOS, run};

use crate::in_memory;

#[ignore = "takes a minute; `cargo xtask e2e scale --in-memory` runs it"]
#[tokio::test(start_paused = true)]
async fn thousand_machines_with_failures_do_not_block_each_other() {
    let [scenario] = SCALE_SCENARIOS else { panic!("one scenario") };
    let result = run(scenario, &in_memory(1)).await;
    assert_eq!((result.name, result.failure), (scenario.name, None));
}
