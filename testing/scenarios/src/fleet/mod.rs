//! Sets and deployments: numbers of machines, and how they go from one template to the next.

mod deployments;
mod overshoot;
mod pool;
mod sets;

use futures::FutureExt;

use crate::Scenario;

macro_rules! scenarios {
    ($($file:ident :: $name:ident),* $(,)?) => {
        /// Every scenario about sets and deployments.
        pub const FLEET_SCENARIOS: &[Scenario] =
            &[$(Scenario { name: stringify!($name), play: |fixture| $file::$name(fixture).boxed() }),*];
    };
}

scenarios![
    sets::a_set_grows_to_fifty_shrinks_to_ten_and_to_none,
    sets::a_set_adopts_machines_that_nobody_manages,
    sets::a_machine_that_is_deleted_is_replaced,
    sets::a_deleted_set_takes_its_machines_along,
    sets::an_invalid_set_is_told_and_goes_on_once_it_is_mended,
    sets::a_controller_that_is_killed_while_a_set_grows_makes_no_machine_too_many,
    deployments::a_roll_out_in_numbers_stays_within_its_limits,
    deployments::a_roll_out_in_percent_goes_on_while_it_is_scaled,
    deployments::a_class_that_cannot_start_halts_a_roll_out_and_rolling_back_heals_it,
    deployments::two_changes_in_a_row_end_with_the_last,
    deployments::a_pause_in_mid_roll_holds_everything,
    deployments::a_recreating_deployment_has_no_old_machine_beside_a_new_one,
    deployments::machines_updated_in_place_are_kept,
    deployments::an_in_place_update_that_fails_or_never_answers_halts_and_a_success_carries_on,
    deployments::under_manual_orchestration_only_the_chosen_machine_is_updated,
    deployments::the_autoscaler_scales_up_down_by_name_and_back,
    deployments::a_deleted_deployment_takes_everything_along_unless_told_otherwise,
    deployments::an_invalid_deployment_is_told_and_goes_on_once_it_is_mended,
    overshoot::too_many_machines_freeze_a_set_until_they_are_gone,
    overshoot::a_rapid_scale_down_freezes_the_set_once_and_thaws_it_once,
    // Late, because a real garbage collector takes half a minute to learn of our kinds, and collects what it should have orphaned before.
    sets::a_set_deleted_without_its_machines_leaves_them_running,
];
