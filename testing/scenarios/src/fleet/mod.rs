//! Scenarios of MachineSets and MachineDeployments: replicas, and rollouts from one template to the next.

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
            &[$(Scenario { name: stringify!($name), run: |fixture| $file::$name(fixture).boxed() }),*];
    };
}

scenarios![
    sets::a_set_grows_to_fifty_shrinks_to_ten_and_to_none,
    sets::set_adopts_machines_without_a_controller,
    sets::a_machine_that_is_deleted_is_replaced,
    sets::deleted_set_deletes_its_machines,
    sets::invalid_set_is_reported_and_resumes_once_fixed,
    sets::killed_controller_creates_no_surplus_machine_in_a_scale_up,
    deployments::rollout_in_numbers_stays_within_its_limits,
    deployments::rollout_in_percent_continues_while_it_is_scaled,
    deployments::rollout_to_a_broken_class_stops_and_can_be_rolled_back,
    deployments::two_changes_in_a_row_end_with_the_last,
    deployments::pause_stops_a_rollout_in_progress,
    deployments::recreate_deletes_old_machines_before_it_creates_new_ones,
    deployments::machines_updated_in_place_are_kept,
    deployments::in_place_update_stops_on_failure_and_resumes_on_success,
    deployments::manual_in_place_update_updates_only_the_chosen_machine,
    deployments::the_autoscaler_scales_up_down_by_name_and_back,
    deployments::deleted_deployment_deletes_its_machines_unless_orphaned,
    deployments::invalid_deployment_is_reported_and_resumes_once_fixed,
    overshoot::too_many_machines_freeze_a_set_until_they_are_gone,
    overshoot::rapid_scale_down_freezes_and_unfreezes_the_set_once,
    // These run late: a real garbage collector takes half a minute to discover our kinds. Before that, it deletes
    // dependents that it should have orphaned.
    sets::a_set_deleted_without_its_machines_leaves_them_running,
];
