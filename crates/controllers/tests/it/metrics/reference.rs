//! All metrics that MCM's dashboards may query, copied from its documentation.
//!
//! `mcm_reflector_*`, which never had values, and the `go_*` metrics of the Go runtime are not included.

use Component::{Both, Machines, Manager};
use Shape::{Counter, Gauge, Histogram};

/// Component that exports a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    Manager,
    Machines,
    Both,
}

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Gauge,
    Counter,
    Histogram(&'static [f64]),
}

/// Name, type, labels and component.
pub(super) type Row = (&'static str, Shape, &'static [&'static str], Component);

const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const LATENCY: &[f64] = &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512];
const QUEUE: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

const OBJECT: &[&str] = &["name", "namespace"];
const CONDITION: &[&str] = &["name", "namespace", "condition"];
const POOL: &[&str] = &["namespace", "machine_deployment", "instance_type", "zone"];
const FAILED: &[&str] = &[
    "name",
    "namespace",
    "failed_machine_name",
    "failed_machine_provider_id",
    "failed_machine_owner_ref",
    "failed_machine_last_operation_state",
    "failed_machine_last_operation_machine_operation_type",
];

pub(super) const REFERENCE: &[Row] = &[
    ("mcm_machine_stale_machines_total", Counter, &[], Manager),
    ("mcm_machine_set_items_total", Gauge, &[], Manager),
    (
        "mcm_machine_set_info",
        Gauge,
        &[
            "name",
            "namespace",
            "createdAt",
            "spec_machine_class_api_group",
            "spec_machine_class_kind",
            "spec_machine_class_name",
        ],
        Manager,
    ),
    ("mcm_machine_set_info_spec_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_set_info_spec_min_ready_seconds", Gauge, OBJECT, Manager),
    ("mcm_machine_set_status_condition", Gauge, CONDITION, Manager),
    ("mcm_machine_set_failed_machines", Gauge, FAILED, Manager),
    ("mcm_machine_set_status_available_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_set_status_fully_labelled_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_set_status_ready_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_set_status_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_items_total", Gauge, &[], Manager),
    ("mcm_machine_deployment_info", Gauge, &["name", "namespace", "createdAt", "spec_strategy_type"], Manager),
    ("mcm_machine_deployment_info_spec_paused", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_min_ready_seconds", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_rolling_update_max_surge", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_rolling_update_max_unavailable", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_revision_history_limit", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_progress_deadline_seconds", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_info_spec_rollback_to_revision", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_condition", Gauge, CONDITION, Manager),
    ("mcm_machine_deployment_status_available_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_unavailable_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_ready_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_updated_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_replicas", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_status_collision_count", Gauge, OBJECT, Manager),
    ("mcm_machine_deployment_failed_machines", Gauge, FAILED, Manager),
    ("mcm_misc_scrape_failure_total", Counter, &["kind", "binary"], Both),
    ("mcm_machine_items_total", Gauge, &[], Machines),
    ("mcm_machine_controller_frozen", Gauge, &[], Machines),
    ("mcm_machine_current_status_phase", Gauge, OBJECT, Machines),
    (
        "mcm_machine_info",
        Gauge,
        &[
            "name",
            "namespace",
            "createdAt",
            "spec_provider_id",
            "spec_class_api_group",
            "spec_class_kind",
            "spec_class_name",
            "node_name",
        ],
        Machines,
    ),
    ("mcm_machine_status_condition", Gauge, CONDITION, Machines),
    ("mcm_machine_create_duration_seconds", Gauge, POOL, Machines),
    ("mcm_machine_initialize_duration_seconds", Gauge, POOL, Machines),
    ("mcm_machine_join_duration_seconds", Gauge, POOL, Machines),
    ("mcm_machine_drain_duration_seconds", Gauge, &["namespace", "machine_deployment"], Machines),
    ("mcm_machine_delete_duration_seconds", Gauge, POOL, Machines),
    ("mcm_machine_num_failed_join", Counter, POOL, Machines),
    ("mcm_cloud_api_requests_total", Counter, &["provider", "service"], Machines),
    ("mcm_cloud_api_requests_failed_total", Counter, &["provider", "service"], Machines),
    ("mcm_cloud_api_api_request_duration_seconds", Histogram(DEFAULT), &["provider", "service"], Machines),
    ("mcm_cloud_api_driver_request_duration_seconds", Histogram(DEFAULT), &["provider", "operation"], Machines),
    ("mcm_cloud_api_driver_requests_failed_total", Counter, &["provider", "operation", "error_code"], Machines),
    ("rest_client_request_latency_seconds", Histogram(LATENCY), &["verb", "url"], Both),
    ("rest_client_requests_total", Counter, &["code", "method", "host"], Both),
    ("mcm_workqueue_depth", Gauge, &["name"], Both),
    ("mcm_workqueue_adds_total", Counter, &["name"], Both),
    ("mcm_workqueue_queue_duration_seconds", Histogram(QUEUE), &["name"], Both),
    ("mcm_workqueue_work_duration_seconds", Histogram(QUEUE), &["name"], Both),
    ("mcm_workqueue_unfinished_work_seconds", Gauge, &["name"], Both),
    ("mcm_workqueue_longest_running_processor_seconds", Gauge, &["name"], Both),
    ("mcm_workqueue_retries_total", Counter, &["name"], Both),
    ("promhttp_metric_handler_requests_in_flight", Gauge, &[], Both),
    ("promhttp_metric_handler_requests_total", Counter, &["code"], Both),
];
