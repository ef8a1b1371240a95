//! A thousand machines at once, with a test clock.

use scenarios::{SCALE_SCENARIOS, play};

use crate::in_memory;

#[ignore = "a minute of computing: `cargo xtask e2e scale --in-memory` runs it"]
#[tokio::test(start_paused = true)]
async fn thousand_machines_with_failures_do_not_block_each_other() {
    let [scenario] = SCALE_SCENARIOS else { panic!("each is a test here") };
    let result = play(scenario, &in_memory(1)).await;
    assert_eq!((result.name, result.broken), (scenario.name, None));
}
