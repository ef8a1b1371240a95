//! Sets and deployments: numbers of machines, and how they go from one template to the next.

mod pool;
mod sets;

use futures::FutureExt;

use crate::Scenario;

macro_rules! scenarios {
    ($($file:ident :: $name:ident),* $(,)?) => {
        /// Every scenario about sets and deployments.
        pub const FLEET_SCENARIOS: &[Scenario] =
            &[$(Scenario { name: stringify!($name), play: |stage| $file::$name(stage).boxed() }),*];
    };
}

scenarios![
    sets::a_set_grows_to_fifty_shrinks_to_ten_and_to_none,
    sets::a_set_adopts_machines_that_nobody_manages,
    sets::a_machine_that_is_deleted_is_replaced,
    sets::a_deleted_set_takes_its_machines_along,
    sets::a_set_deleted_without_its_machines_leaves_them_running,
    sets::an_invalid_set_is_told_and_goes_on_once_it_is_mended,
    sets::a_controller_that_is_killed_while_a_set_grows_makes_no_machine_too_many,
];
