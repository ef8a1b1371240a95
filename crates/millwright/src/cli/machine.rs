//! Flags of the machine controller: the component that looks after machines, their VMs and their nodes.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use driver_remote::{Endpoint, TlsFiles};

use super::values::{Places, Span};
use super::{NEW, Safety, endpoint, tls_files};
use crate::drain_flags::DrainFlags;

/// Flags of the machine controller.
#[derive(Debug, Args)]
pub(crate) struct MachineFlags {
    #[command(flatten)]
    health: Health,
    #[command(flatten)]
    drain: DrainFlags,
    #[command(flatten)]
    pub(super) safety: Safety,
    #[command(flatten)]
    pub(crate) driver: DriverFlags,
}

impl MachineFlags {
    /// The policy with what these flags ask for in it.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let driver_call_timeout = self.driver.driver_call_timeout.get();
        let policy = planner::Policy { drain: self.drain.limits(), driver_call_timeout, ..policy };
        self.safety.apply(self.health.apply(policy))
    }
}

/// Where VMs come from.
#[derive(Debug, Args)]
#[command(next_help_heading = NEW)]
#[allow(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(crate) struct DriverFlags {
    /// Whose drivers of those that are built in to use, separated by commas; each serves the classes that name it as their provider. `AWS` is in builds with the
    /// feature `aws`, as the image is, `OpenStack` in those with the feature `openstack`. In builds with the feature `dev`, `virtual` is a cloud that lives and dies
    /// with this process, `host` the host it runs on, and `qemu` virtual machines of that host. Any other needs --driver-endpoint.
    #[arg(long, value_name = "NAMES")]
    provider: Option<String>,
    /// Where the driver listens: `unix:PATH` or `tcp+mtls://HOST:PORT`. It serves every class. Needed unless --provider names a driver that is built in.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) driver_endpoint: Option<Endpoint>,
    /// The authority that issued the driver's certificate, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_cert_file", "driver_key_file"])]
    driver_ca_file: Option<PathBuf>,
    /// The certificate to show to the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_key_file"])]
    driver_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_cert_file"])]
    driver_key_file: Option<PathBuf>,
    /// How many driver calls run at once for one credential.
    #[arg(long, value_name = "N", default_value = "50")]
    pub(crate) driver_calls_per_credential: Places,
    /// How long a driver call may take, creates aside: those may take as long as their machine may take to join.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    pub(crate) driver_call_timeout: Span,
}

impl DriverFlags {
    /// The drivers that are asked for by name.
    pub(crate) fn providers(&self) -> Vec<&str> {
        self.provider.iter().flat_map(|names| names.split(',')).map(str::trim).collect()
    }

    /// The files of our side of TLS with the driver; all or none, clap sees to it.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        tls_files([&self.driver_ca_file, &self.driver_cert_file, &self.driver_key_file])
    }
}

/// When a machine is marked Failed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Timeouts")]
pub(crate) struct Health {
    /// How long a machine may take until its node has joined; 0s gives it up at the first look, as in MCM.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    machine_creation_timeout: Span,
    /// How long a machine may be unhealthy before it is marked Failed.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    machine_health_timeout: Span,
    /// How long an in-place update may take before it counts as failed.
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    machine_inplace_update_timeout: Span,
    /// How long a machine is preserved.
    #[arg(long, value_name = "DURATION", default_value = "96h")]
    machine_preserve_timeout: Span,
    /// Until a creation that ran into a quota is tried again; 0s for ten minutes.
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    resource_exhausted_retry: Span,
    /// Node conditions, separated by commas, that make a node unhealthy unless they are False.
    #[arg(long, value_name = "TYPES", default_value = api::names::conditions::node::UNHEALTHY_BY_DEFAULT)]
    node_conditions: String,
    /// Groups that bootstrap tokens belong to beyond the standard one, separated by commas.
    #[arg(long, value_name = "GROUPS", default_value = "")]
    bootstrap_token_auth_extra_groups: String,
    /// How many machines of a deployment may be on their way at once for being unhealthy: a number, or a percentage of them.
    #[arg(long, value_name = "LIMIT", default_value = "1", help_heading = NEW)]
    machine_max_replacements: planner::replacement_limit::Limit,
    /// Hold a node that says nothing of Ready for unhealthy. MCM does not.
    #[arg(long, help_heading = NEW)]
    missing_ready_is_unhealthy: bool,
    /// Delete the Machine of a Node with the annotation node.machine.sapcloud.io/trigger-deletion-by-mcm: "true". MCM does so from v0.42 to v0.60.
    #[arg(long, default_value_t = true, action = ArgAction::Set, help_heading = NEW)]
    delete_machines_by_node_annotation: bool,
    /// Mark a machine of a deployment Failed whose in-place update failed, after its health timeout. MCM keeps it.
    #[arg(long, help_heading = NEW)]
    replace_failed_in_place_updates: bool,
}

impl Health {
    /// The policy with these limits in it.
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
    fn without_flags_machines_are_looked_after_as_the_reference_does_it() {
        assert_eq!(with(&[]).unwrap().apply(planner::Policy::default()), planner::Policy::default());
    }

    #[test]
    fn what_is_said_about_machines_is_heard() {
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
    fn several_drivers_are_named_with_commas() {
        let named = |flags: &[&str]| with(flags).unwrap().driver.providers().join("|");
        assert_eq!(named(&["--provider=AWS, virtual"]), "AWS|virtual");
        assert_eq!(named(&["--provider=AWS"]), "AWS");
        assert_eq!(named(&[]), "");
    }

    /// Shows THR-9.
    #[test]
    fn a_wrong_flag_is_told_in_a_sentence_that_names_the_fix() {
        let said = |flags: &[&str]| with(flags).unwrap_err().to_string();
        let unit = said(&["--machine-creation-timeout=20"]);
        assert!(unit.contains("--machine-creation-timeout") && unit.contains("write it like 90s"), "{unit}");
        let limit = said(&["--machine-max-replacements=some"]);
        assert!(limit.contains("neither a number such as 2 nor a percentage"), "{limit}");
        let scheme = said(&["--driver-endpoint=/run/driver.sock"]);
        assert!(scheme.contains("--driver-endpoint") && scheme.contains("unix:/run/driver.sock"), "{scheme}");
        let files = said(&["--driver-endpoint=tcp+mtls://d:1", "--driver-ca-file=ca"]);
        assert!(files.contains("--driver-cert-file"), "{files}");
    }
}
