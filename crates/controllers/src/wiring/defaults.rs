//! Defaults of flags that configure the wiring. The planner's defaults are in [`planner::Policy`].

/// Number of concurrent workers per work queue of the manager (`--concurrent-syncs`).
pub const MANAGER_WORKERS: usize = 10;

/// Number of concurrent workers per work queue of the machine controller (`--concurrent-syncs`).
pub const MACHINE_CONTROLLER_WORKERS: usize = 50;

/// Maximum number of concurrent driver calls per credential (`--driver-calls-per-credential`).
pub const DRIVER_CALLS_PER_CREDENTIAL: usize = 50;
