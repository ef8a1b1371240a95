//! What each dashboard shows. A panel answers one question; its title is the question's short form.

/// A dashboard.
pub(super) struct Dashboard {
    /// Name of the file, and of the dashboard's address.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) panels: &'static [Panel],
}

impl Dashboard {
    /// All that it asks Prometheus.
    pub(super) fn queries(&self) -> impl Iterator<Item = &'static str> {
        self.panels.iter().flat_map(|panel| panel.queries.iter().map(|(query, _)| *query))
    }
}

/// A panel: queries, each with the legend of its lines.
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) unit: Unit,
    pub(super) queries: &'static [(&'static str, &'static str)],
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Count,
    PerSecond,
    Seconds,
    Bytes,
    Cores,
}

const fn panel(
    title: &'static str,
    about: &'static str,
    unit: Unit,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, queries }
}

pub(super) const DASHBOARDS: &[Dashboard] = &[POOLS, ROLLOUTS, DRAINS, CLOUD, MILLWRIGHT];

const POOLS: Dashboard = Dashboard {
    name: "pools",
    title: "Pools",
    about: "Whether every pool has the machines it is to have, and what the missing ones wait for.",
    panels: &[
        panel(
            "Machines wanted and available",
            "The distance between both is what a pool is short of.",
            Unit::Count,
            &[
                (
                    r#"mcm_machine_deployment_info_spec_replicas{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} wanted",
                ),
                (
                    r#"mcm_machine_deployment_status_available_replicas{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} available",
                ),
            ],
        ),
        panel(
            "Machines by phase",
            "Pending for long: they do not join. CrashLoopBackOff: the cloud does not make them.",
            Unit::Count,
            &[(r#"sum by (phase) (millwright_machines{namespace=~"$namespace"})"#, "{{phase}}")],
        ),
        panel(
            "Failed machines",
            "By the operation that failed; the pool replaces them.",
            Unit::Count,
            &[(
                r#"count by (name, failed_machine_last_operation_machine_operation_type) (mcm_machine_deployment_failed_machines{namespace=~"$namespace"})"#,
                "{{name}} {{failed_machine_last_operation_machine_operation_type}}",
            )],
        ),
        panel(
            "Machines that did not join in time",
            "Marked Failed because no Node came; user data, network or token are the usual reasons.",
            Unit::Count,
            &[(
                r#"sum by (machine_deployment) (increase(mcm_machine_num_failed_join{namespace=~"$namespace"}[1h]))"#,
                "{{machine_deployment}} in an hour",
            )],
        ),
        panel(
            "From the Machine to its VM, and to Running",
            "Of the last machine of each pool.",
            Unit::Seconds,
            &[
                (
                    r#"max by (machine_deployment) (mcm_machine_create_duration_seconds{namespace=~"$namespace"})"#,
                    "{{machine_deployment}} VM",
                ),
                (
                    r#"max by (machine_deployment) (mcm_machine_join_duration_seconds{namespace=~"$namespace"})"#,
                    "{{machine_deployment}} Running",
                ),
            ],
        ),
        panel(
            "How long nine of ten machines take",
            "From the Machine to its VM, to Running, and from the request to delete it until its VM is gone; of the last hour.",
            Unit::Seconds,
            &[
                (
                    r#"histogram_quantile(0.9, sum by (machine_deployment, le) (increase(millwright_machine_create_duration_seconds_bucket{namespace=~"$namespace"}[1h])))"#,
                    "{{machine_deployment}} VM",
                ),
                (
                    r#"histogram_quantile(0.9, sum by (machine_deployment, le) (increase(millwright_machine_join_duration_seconds_bucket{namespace=~"$namespace"}[1h])))"#,
                    "{{machine_deployment}} Running",
                ),
                (
                    r#"histogram_quantile(0.9, sum by (machine_deployment, le) (increase(millwright_machine_delete_duration_seconds_bucket{namespace=~"$namespace"}[1h])))"#,
                    "{{machine_deployment}} gone",
                ),
            ],
        ),
        panel(
            "From the request to delete until the VM is gone",
            "Of the last machine of each pool.",
            Unit::Seconds,
            &[(
                r#"max by (machine_deployment) (mcm_machine_delete_duration_seconds{namespace=~"$namespace"})"#,
                "{{machine_deployment}}",
            )],
        ),
    ],
};

const ROLLOUTS: Dashboard = Dashboard {
    name: "rollouts",
    title: "Roll-outs",
    about: "Progress of each rollout, and whether it is stuck.",
    panels: &[
        panel(
            "Machines of the current template",
            "A rollout is complete when all Machines have the current template.",
            Unit::Count,
            &[
                (
                    r#"mcm_machine_deployment_status_updated_replicas{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} current",
                ),
                (r#"mcm_machine_deployment_status_replicas{namespace=~"$namespace"}"#, "{{namespace}}/{{name}} all"),
            ],
        ),
        panel(
            "Machines above what is wanted",
            "Limited by maxSurge.",
            Unit::Count,
            &[
                (
                    r#"clamp_min(mcm_machine_deployment_status_replicas{namespace=~"$namespace"} - mcm_machine_deployment_info_spec_replicas{namespace=~"$namespace"}, 0)"#,
                    "{{namespace}}/{{name}} above",
                ),
                (
                    r#"mcm_machine_deployment_info_spec_rolling_update_max_surge{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} maxSurge",
                ),
            ],
        ),
        panel(
            "Machines that are unavailable",
            "A rollout adds at most maxUnavailable. Machines that fail by themselves are counted in addition.",
            Unit::Count,
            &[
                (
                    r#"mcm_machine_deployment_status_unavailable_replicas{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} unavailable",
                ),
                (
                    r#"mcm_machine_deployment_info_spec_rolling_update_max_unavailable{namespace=~"$namespace"}"#,
                    "{{namespace}}/{{name}} maxUnavailable",
                ),
            ],
        ),
        panel(
            "Conditions",
            "True 1, False 0, Unknown 2. Progressing at 0: the deadline has passed. Frozen at 1: nothing is made.",
            Unit::Count,
            &[(
                r#"mcm_machine_deployment_status_condition{namespace=~"$namespace"}"#,
                "{{namespace}}/{{name}} {{condition}}",
            )],
        ),
        panel(
            "Paused",
            "1 while the MachineDeployment is paused: its template is not rolled out.",
            Unit::Count,
            &[(r#"mcm_machine_deployment_info_spec_paused{namespace=~"$namespace"}"#, "{{namespace}}/{{name}}")],
        ),
        panel(
            "Machines of each set",
            "The old MachineSets are scaled down while the new one is scaled up.",
            Unit::Count,
            &[(r#"mcm_machine_set_status_replicas{namespace=~"$namespace"} > 0"#, "{{namespace}}/{{name}}")],
        ),
    ],
};

const DRAINS: Dashboard = Dashboard {
    name: "drains",
    title: "Drains",
    about: "Nodes that are being emptied, and what refuses to leave.",
    panels: &[
        panel(
            "Drains under way",
            "A drain that does not end waits for a budget or a volume; the Machine says which.",
            Unit::Count,
            &[(r#"sum by (namespace) (millwright_drains{namespace=~"$namespace"})"#, "{{namespace}}")],
        ),
        panel(
            "Evictions, deletions and detachments",
            "By the answer. Evictions that are refused again and again: a budget that allows none.",
            Unit::PerSecond,
            &[(
                r#"sum by (verb, answer) (rate(millwright_drain_requests_total{namespace=~"$namespace"}[$__rate_interval]))"#,
                "{{verb}}: {{answer}}",
            )],
        ),
        panel(
            "How long the last drain took",
            "Drains that succeeded.",
            Unit::Seconds,
            &[(
                r#"max by (machine_deployment) (mcm_machine_drain_duration_seconds{namespace=~"$namespace"})"#,
                "{{machine_deployment}}",
            )],
        ),
        panel(
            "How long nine of ten drains took",
            "Drains that succeeded, of the last hour.",
            Unit::Seconds,
            &[(
                r#"histogram_quantile(0.9, sum by (machine_deployment, le) (increase(millwright_machine_drain_duration_seconds_bucket{namespace=~"$namespace"}[1h])))"#,
                "{{machine_deployment}}",
            )],
        ),
        panel(
            "Machines that are leaving",
            "Terminating: draining, or their VM is being deleted.",
            Unit::Count,
            &[(
                r#"sum by (namespace) (millwright_machines{namespace=~"$namespace", phase="Terminating"})"#,
                "{{namespace}}",
            )],
        ),
    ],
};

const CLOUD: Dashboard = Dashboard {
    name: "cloud",
    title: "Cloud",
    about: "Driver calls: requests, results and queues.",
    panels: &[
        panel(
            "Driver calls, slowest of a hundred",
            "What a call takes, without the time it waited to leave.",
            Unit::Seconds,
            &[(
                r#"histogram_quantile(0.99, sum by (provider, operation, le) (rate(mcm_cloud_api_driver_request_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))"#,
                "{{provider}} {{operation}}",
            )],
        ),
        panel(
            "Driver calls that fail",
            "By the number of their code; 8 is ResourceExhausted, 14 Unavailable, 16 Unauthenticated.",
            Unit::PerSecond,
            &[(
                r#"sum by (operation, error_code) (rate(mcm_cloud_api_driver_requests_failed_total{namespace=~"$namespace"}[$__rate_interval])) > 0"#,
                "{{operation}} code {{error_code}}",
            )],
        ),
        panel(
            "Requests to the cloud",
            "What drivers asked of it; a driver call may be several.",
            Unit::PerSecond,
            &[
                (
                    r#"sum by (provider, service) (rate(mcm_cloud_api_requests_total{namespace=~"$namespace"}[$__rate_interval]))"#,
                    "{{provider}} {{service}}",
                ),
                (
                    r#"sum by (provider, service) (rate(mcm_cloud_api_requests_failed_total{namespace=~"$namespace"}[$__rate_interval])) > 0"#,
                    "{{provider}} {{service}} failed",
                ),
            ],
        ),
        panel(
            "Driver calls that are out, and that wait",
            "By credential. Waiting while few are out: the cloud throttles.",
            Unit::Count,
            &[
                (r#"sum by (secret) (millwright_driver_calls_in_flight{namespace=~"$namespace"})"#, "{{secret}} out"),
                (r#"sum by (secret) (millwright_driver_calls_waiting{namespace=~"$namespace"})"#, "{{secret}} waiting"),
            ],
        ),
        panel(
            "How long driver calls wait, slowest of a hundred",
            "Before they leave.",
            Unit::Seconds,
            &[(
                r#"histogram_quantile(0.99, sum by (operation, le) (rate(millwright_driver_queue_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))"#,
                "{{operation}}",
            )],
        ),
        panel(
            "Credentials and classes that are held back",
            "1 while the cloud throttles the credential, or has no room for machines of the class.",
            Unit::Count,
            &[
                (r#"max by (secret) (millwright_driver_paused{namespace=~"$namespace"})"#, "throttled: {{secret}}"),
                (
                    r#"max by (class) (millwright_machine_class_held_back{namespace=~"$namespace"})"#,
                    "no room: {{class}}",
                ),
            ],
        ),
        panel(
            "VMs without a Machine",
            "Suspected ones are looked at again; those held back are too many to be deleted without a person.",
            Unit::Count,
            &[(r#"sum by (state) (millwright_orphan_vms{namespace=~"$namespace"})"#, "{{state}}")],
        ),
        panel(
            "Orphans deleted",
            "In an hour.",
            Unit::Count,
            &[(
                r#"sum by (namespace) (increase(millwright_orphan_vms_deleted_total{namespace=~"$namespace"}[1h]))"#,
                "{{namespace}}",
            )],
        ),
    ],
};

const MILLWRIGHT: Dashboard = Dashboard {
    name: "millwright",
    title: "Millwright itself",
    about: "Whether it leads, sees and keeps up, and what it costs.",
    panels: &[
        panel(
            "Who leads",
            "1 for the replica that may act; exactly one of each component.",
            Unit::Count,
            &[(r#"millwright_leading{namespace=~"$namespace"}"#, "{{job}} {{pod}}")],
        ),
        panel(
            "Frozen",
            "1 while no VM is created and no Machine is marked Failed, because an API server is unreachable.",
            Unit::Count,
            &[(r#"max by (namespace) (mcm_machine_controller_frozen{namespace=~"$namespace"})"#, "{{namespace}}")],
        ),
        panel(
            "Keys that wait for a worker",
            "By queue. Growing: it does not keep up.",
            Unit::Count,
            &[(r#"sum by (name) (mcm_workqueue_depth{namespace=~"$namespace"})"#, "{{name}}")],
        ),
        panel(
            "Reconciles, slowest of a hundred",
            "None of them waits for a cloud or a drain.",
            Unit::Seconds,
            &[(
                r#"histogram_quantile(0.99, sum by (name, le) (rate(mcm_workqueue_work_duration_seconds_bucket{namespace=~"$namespace"}[$__rate_interval])))"#,
                "{{name}}",
            )],
        ),
        panel(
            "Requests to API servers",
            "By method and code. At rest there are next to none.",
            Unit::PerSecond,
            &[(
                r#"sum by (method, code) (rate(rest_client_requests_total{namespace=~"$namespace"}[$__rate_interval]))"#,
                "{{method}} {{code}}",
            )],
        ),
        panel(
            "Caches that fail or stall",
            "Lists and watches that failed, and watches that fell silent.",
            Unit::PerSecond,
            &[
                (
                    r#"sum by (kind) (rate(millwright_cache_failures_total{namespace=~"$namespace"}[$__rate_interval])) > 0"#,
                    "{{kind}} failed",
                ),
                (
                    r#"sum by (kind) (rate(millwright_cache_stalls_total{namespace=~"$namespace"}[$__rate_interval])) > 0"#,
                    "{{kind}} stalled",
                ),
            ],
        ),
        panel(
            "Objects that need a person",
            "Refused by our check, not decodable, or out of reach for want of a permission.",
            Unit::Count,
            &[
                (r#"sum by (kind) (millwright_invalid_objects{namespace=~"$namespace"}) > 0"#, "{{kind}} invalid"),
                (
                    r#"sum by (kind) (millwright_cache_undecodable{namespace=~"$namespace"}) > 0"#,
                    "{{kind}} undecodable",
                ),
                (
                    r#"max by (verb, resource) (millwright_permission_missing{namespace=~"$namespace"})"#,
                    "may not {{verb}} {{resource}}",
                ),
            ],
        ),
        panel(
            "Memory",
            "Resident.",
            Unit::Bytes,
            &[(
                r#"process_resident_memory_bytes{namespace=~"$namespace", job=~"machine-controller.*"}"#,
                "{{job}} {{pod}}",
            )],
        ),
        panel(
            "CPU",
            "In cores.",
            Unit::Cores,
            &[(
                r#"rate(process_cpu_seconds_total{namespace=~"$namespace", job=~"machine-controller.*"}[$__rate_interval])"#,
                "{{job}} {{pod}}",
            )],
        ),
        panel(
            "Versions",
            "What is running; two lines for the length of an update.",
            Unit::Count,
            &[(
                r#"count by (version, commit) (millwright_build_info{namespace=~"$namespace"})"#,
                "{{version}} {{commit}}",
            )],
        ),
    ],
};
