//! Flags of the machine controller, which manages Machines, their VMs and their Nodes.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use controllers::wiring::defaults;
use driver_remote::{Endpoint, TlsFiles};

use super::values::{Concurrency, Span};
use super::{NEW, SafetyFlags, endpoint, tls_files};
use crate::drain_flags::DrainFlags;

/// Flags of the machine controller.
#[derive(Debug, Args)]
pub(crate) struct MachineFlags {
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    drain: DrainFlags,
    #[command(flatten)]
    pub(super) safety: SafetyFlags,
    #[command(flatten)]
    pub(crate) driver: DriverFlags,
}

impl MachineFlags {
    /// Returns the policy with these flags applied.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let driver_call_timeout = self.driver.driver_call_timeout.get();
        let policy = planner::Policy { drain: self.drain.limits(), driver_call_timeout, ..policy };
        self.safety.apply(self.health.apply(policy))
    }
}

/// Drivers that create the VMs.
#[derive(Debug, Args)]
#[command(next_help_heading = NEW)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct DriverFlags {
    /// Comma-separated list of built-in drivers to enable. Each driver handles MachineClasses with a matching
    /// `provider`. `AWS` requires a build with the feature `aws` (as the image has), `OpenStack` the feature
    /// `openstack`. The feature `dev` adds `virtual` (a cloud in this process, lost when it exits), `host` (this host)
    /// and `qemu` (virtual machines on this host). Other providers require --driver-endpoint.
    #[arg(long, value_name = "NAMES")]
    provider: Option<String>,
    /// Endpoint of the driver: `unix:PATH` or `tcp+mtls://HOST:PORT`. The driver handles all MachineClasses. Required
    /// unless --provider names a built-in driver.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) driver_endpoint: Option<Endpoint>,
    /// CA certificate used to verify the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_cert_file", "driver_key_file"])]
    driver_ca_file: Option<PathBuf>,
    /// Client certificate presented to the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_key_file"])]
    driver_cert_file: Option<PathBuf>,
    /// Private key of the client certificate.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_cert_file"])]
    driver_key_file: Option<PathBuf>,
    /// Maximum number of concurrent driver calls per credential.
    #[arg(long, value_name = "N", default_value_t = Concurrency::of(defaults::DRIVER_CALLS_PER_CREDENTIAL))]
    pub(crate) driver_calls_per_credential: Concurrency,
    /// Timeout for driver calls other than CreateMachine. The timeout for CreateMachine is the creation timeout of the
    /// Machine.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    pub(crate) driver_call_timeout: Span,
}

impl DriverFlags {
    /// Returns the names of the enabled built-in drivers.
    pub(crate) fn providers(&self) -> Vec<&str> {
        self.provider.iter().flat_map(|names| names.split(',')).map(str::trim).collect()
    }

    /// Returns the TLS files for the driver connection. clap ensures that all or none are given.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        tls_files([&self.driver_ca_file, &self.driver_cert_file, &self.driver_key_file])
    }
}

/// When a Machine is marked Failed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Timeouts")]
pub(crate) struct Health {
    /// Timeout for a Node to join after its Machine was created. 0s marks the Machine Failed on the first check, as in
    /// MCM.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    machine_creation_timeout: Span,
    /// Duration for which a Machine may be unhealthy before it is marked Failed.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    machine_health_timeout: Span,
    /// Timeout for an in-place update.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    machine_inplace_update_timeout: Span,
    /// Duration for which a Machine is preserved.
    #[arg(long, value_name = "DURATION", default_value = "96h")]
    machine_preserve_timeout: Span,
    /// Delay before retrying a creation that was refused for quota. 0s selects ten minutes.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    resource_exhausted_retry: Span,
    /// Comma-separated list of Node conditions that make a Node unhealthy unless they are False.
    #[arg(long, value_name = "TYPES", default_value = api::names::conditions::node::UNHEALTHY_BY_DEFAULT)]
    node_conditions: String,
    /// Comma-separated list of additional groups of bootstrap tokens.
    #[arg(long, value_name = "GROUPS", default_value = "")]
    bootstrap_token_auth_extra_groups: String,
    /// Maximum number (or percentage) of unhealthy Machines per MachineDeployment that are replaced at the same time.
    #[arg(long, value_name = "LIMIT", default_value = "1", help_heading = NEW)]
    machine_max_replacements: planner::replacement_limit::Limit,
    /// Treat a Node without a Ready condition as unhealthy. MCM does not.
    #[arg(long, help_heading = NEW)]
    missing_ready_is_unhealthy: bool,
    /// Delete the Machine of a Node that has the annotation node.machine.sapcloud.io/trigger-deletion-by-mcm: "true".
    /// MCM does so from v0.42 to v0.60.
    #[arg(long, default_value_t = true, action = ArgAction::Set, help_heading = NEW)]
    delete_machines_by_node_annotation: bool,
    /// Mark a Machine of a MachineDeployment Failed if its in-place update failed, after its health timeout. MCM keeps
    /// the Machine.
    #[arg(long, help_heading = NEW)]
    replace_failed_in_place_updates: bool,
}

impl Health {
    /// Returns the policy with these timeouts applied.
    fn apply(&self, policy: planner::Policy) -> planner::Policy {
        use planner::policy::{FailedUpdate, MissingReady, NodeAnnotation};
        planner::Policy {
            creation_timeout: self.machine_creation_timeout.get(),
            health_timeout: self.machine_health_timeout.get(),
            in_place_timeout: self.machine_inplace_update_timeout.get(),
            preserve_timeout: self.machine_preserve_timeout.get(),
            exhausted_retry: self.resource_exhausted_retry.get(),
            node_conditions: self.node_conditions.split(',').map(str::to_owned).collect(),
            bootstrap_token_extra_groups: self.bootstrap_token_auth_extra_groups.clone(),
            max_replacements: self.machine_max_replacements,
            missing_ready: if self.missing_ready_is_unhealthy {
                MissingReady::Unhealthy
            } else {
                MissingReady::Healthy
            },
            node_annotation: if self.delete_machines_by_node_annotation {
                NodeAnnotation::DeletesMachine
            } else {
                NodeAnnotation::Ignored
            },
            failed_update: if self.replace_failed_in_place_updates {
                FailedUpdate::Replaced
            } else {
                FailedUpdate::Kept
            },
            ..policy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct MachineCommand {
        #[command(flatten)]
        machine: MachineFlags,
    }

    fn with(flags: &[&str]) -> Result<MachineFlags, clap::Error> {
        MachineCommand::try_parse_from(["x"].iter().chain(flags)).map(|command| command.machine)
    }

    /// Shows MC-W71.
    #[test]
    fn machine_flags_default_to_the_default_policy() {
        assert_eq!(with(&[]).unwrap().apply(planner::Policy::default()), planner::Policy::default());
    }

    #[test]
    fn machine_flags_set_the_policy() {
        let given = with(&[
            "--machine-creation-timeout=1h30m",
            "--driver-call-timeout=7m",
            "--machine-max-replacements=25%",
            "--node-conditions=A,B",
            "--missing-ready-is-unhealthy",
            "--replace-failed-in-place-updates",
            "--delete-machines-by-node-annotation=false",
            "--bootstrap-token-auth-extra-groups=system:bootstrappers:x",
        ]);
        let policy = given.unwrap().apply(planner::Policy::default());
        assert_eq!(policy.creation_timeout.as_secs(), 5400);
        assert_eq!(policy.driver_call_timeout.as_secs(), 420);
        assert_eq!(policy.max_replacements, planner::replacement_limit::Limit::Percent(25));
        assert_eq!(policy.node_conditions, ["A", "B"]);
        assert_eq!(policy.missing_ready, planner::policy::MissingReady::Unhealthy);
        assert_eq!(policy.node_annotation, planner::policy::NodeAnnotation::Ignored);
        assert_eq!(policy.failed_update, planner::policy::FailedUpdate::Replaced);
        assert_eq!(policy.bootstrap_token_extra_groups, "system:bootstrappers:x");
    }

    #[test]
    fn provider_flag_takes_a_comma_separated_list() {
        let named = |flags: &[&str]| with(flags).unwrap().driver.providers().join("|");
        assert_eq!(named(&["--provider=AWS, virtual"]), "AWS|virtual");
        assert_eq!(named(&["--provider=AWS"]), "AWS");
        assert_eq!(named(&[]), "");
    }

    /// Shows THR-9.
    #[test]
    fn invalid_flag_value_error_names_the_fix() {
        let error = |flags: &[&str]| with(flags).unwrap_err().to_string();
        let unit = error(&["--machine-creation-timeout=20"]);
        assert!(unit.contains("--machine-creation-timeout") && unit.contains("use a value such as 90s"), "{unit}");
        let limit = error(&["--machine-max-replacements=some"]);
        assert!(limit.contains("neither a number such as 2 nor a percentage"), "{limit}");
        let scheme = error(&["--driver-endpoint=/run/driver.sock"]);
        assert!(scheme.contains("--driver-endpoint") && scheme.contains("unix:/run/driver.sock"), "{scheme}");
        let files = error(&["--driver-endpoint=tcp+mtls://d:1", "--driver-ca-file=ca"]);
        assert!(files.contains("--driver-cert-file"), "{files}");
    }
}
