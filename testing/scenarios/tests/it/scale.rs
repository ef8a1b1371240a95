//! A thousand machines at once, under a clock of our own.

use scenarios::{SCALE_SCENARIOS, play};

use crate::in_memory;

#[ignore = "a minute of computing: `cargo xtask e2e scale --in-memory` runs it"]
#[tokio::test(start_paused = true)]
async fn a_thousand_machines_fail_in_their_own_ways_and_hold_up_nobody() {
    let [scenario] = SCALE_SCENARIOS else { panic!("each is a test here") };
    let result = play(scenario, &in_memory(1)).await;
    assert_eq!((result.name, result.broken), (scenario.name, None));
}
