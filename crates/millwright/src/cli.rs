//! What can be said on the command line.

mod fleet;
mod rollout;
mod safety;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use remote_driver::{Endpoint, TlsFiles};

pub(crate) use fleet::Fleet;
pub(crate) use rollout::RolloutFlags;
pub(crate) use safety::Safety;

/// A machine controller manager for Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "millwright", version, about, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a machine's life, from its creation to its deletion, on an embedded API server and an embedded cloud.
    Demo(Demo),
    /// Print the CustomResourceDefinitions, or write them to a directory.
    Crds(Crds),
    /// Serve the embedded API server on loopback, for kubectl and for `millwright run`.
    ApiServer(ApiServer),
    /// Run the machine controller on an API server, with a driver in its own process or with the virtual cloud.
    Run(Box<Run>),
    /// Run the virtual cloud and its kubelets as a process of their own, for `millwright run --driver-endpoint`.
    VirtualCloud(VirtualCloud),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Also log to stderr: 4 tells why, 6 every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

/// For people, or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// Write one file a kind into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ApiServer {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write a kubeconfig for it.
    #[arg(long, value_name = "FILE", default_value = "millwright.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Kubeconfig of the cluster that holds the machines; `inClusterConfig` for the pod's own; the same as the target's by default.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) control_kubeconfig: String,
    /// Kubeconfig of the cluster that nodes join; empty for the pod's own, `none` to run without one.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) target_kubeconfig: String,
    /// The only namespace of the control cluster that is looked after.
    #[arg(long, default_value = "default")]
    pub(crate) namespace: String,
    /// How many machines are worked on at once.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) concurrent_syncs: u16,
    /// Requests a second to each API server, in the long run.
    #[arg(long, value_name = "N", default_value_t = 20.0, value_parser = positive)]
    pub(crate) kube_api_qps: f32,
    /// Requests at once, after a rest.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kube_api_burst: u32,
    /// Act only while holding the lease `machine-controller`.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// How long a candidate waits before it takes over a lease that is not renewed.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub(crate) leader_elect_lease_duration: std::time::Duration,
    /// How long the leader tries to renew before it gives up.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(crate) leader_elect_renew_deadline: std::time::Duration,
    /// How long to wait between two attempts.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub(crate) leader_elect_retry_period: std::time::Duration,
    /// How long a machine may take until its node has joined.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = go_duration)]
    pub(crate) machine_creation_timeout: std::time::Duration,
    #[command(flatten)]
    pub(crate) health: Health,
    /// Groups that bootstrap tokens belong to beyond the standard one, separated by commas.
    #[arg(long, value_name = "GROUPS", default_value = "")]
    pub(crate) bootstrap_token_auth_extra_groups: String,
    /// How many driver calls run at once for one credential.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) driver_calls_per_credential: u16,
    #[command(flatten)]
    pub(crate) drain: crate::drain_flags::DrainFlags,
    #[command(flatten)]
    pub(crate) fleet: Fleet,
    #[command(flatten)]
    pub(crate) safety: Safety,
    #[command(flatten)]
    pub(crate) rollout: RolloutFlags,
    /// Where the driver listens: `unix:PATH` or `tcp+mtls://HOST:PORT`. Without it, a virtual cloud lives and dies with this process.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) driver_endpoint: Option<Endpoint>,
    /// The authority that issued the driver's certificate, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_cert_file", "driver_key_file"])]
    pub(crate) driver_ca_file: Option<PathBuf>,
    /// The certificate to show to the driver, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_key_file"])]
    pub(crate) driver_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires_all = ["driver_ca_file", "driver_cert_file"])]
    pub(crate) driver_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: Log,
}

#[derive(Debug, Args)]
pub(crate) struct VirtualCloud {
    /// Where to listen for controllers: `unix:PATH`, open to the same user only, or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) listen: Endpoint,
    /// The authority that issues the certificates of controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert_file", "tls_private_key_file"])]
    pub(crate) client_ca_file: Option<PathBuf>,
    /// The certificate to show to controllers, for tcp+mtls.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_private_key_file"])]
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, value_name = "FILE", requires_all = ["client_ca_file", "tls_cert_file"])]
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// Kubeconfig of the cluster that nodes join; empty for the pod's own, `none` for VMs that never join.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) kubeconfig: String,
    /// After how long a silent node is `Unknown`; 0s leaves that to a kube-controller-manager.
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = go_duration)]
    pub(crate) node_monitor_grace_period: std::time::Duration,
    /// Make a second VM for whoever creates twice, as some clouds do, so that a doubled create shows.
    #[arg(long)]
    pub(crate) allow_doubles: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// When a machine is given up.
#[derive(Debug, Args)]
pub(crate) struct Health {
    /// How long a machine may be unhealthy before it is given up.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    pub(crate) machine_health_timeout: std::time::Duration,
    /// How long an in-place update may take before it counts as failed.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = go_duration)]
    pub(crate) machine_inplace_update_timeout: std::time::Duration,
    /// How long a machine is preserved.
    #[arg(long, value_name = "DURATION", default_value = "96h", value_parser = go_duration)]
    pub(crate) machine_preserve_timeout: std::time::Duration,
    /// Node conditions, separated by commas, that make a node unhealthy unless they are False.
    #[arg(long, value_name = "TYPES", default_value = api::names::conditions::node::UNHEALTHY_BY_DEFAULT)]
    pub(crate) node_conditions: String,
    /// How many machines of a deployment may be on their way at once for being unhealthy: a number, or a percentage of them.
    #[arg(long, value_name = "LIMIT", default_value = "1")]
    pub(crate) machine_max_replacements: plan::permit::Limit,
    /// Hold a node that says nothing of Ready for unhealthy. The reference does not.
    #[arg(long)]
    pub(crate) missing_ready_is_unhealthy: bool,
    /// Until a creation that ran into a quota is tried again; 0s for ten minutes.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = go_duration)]
    pub(crate) resource_exhausted_retry: std::time::Duration,
}

impl Health {
    /// The policy with these limits in it.
    pub(crate) fn apply(&self, policy: plan::Policy) -> plan::Policy {
        use plan::policy::MissingReady;
        plan::Policy {
            health_timeout: self.machine_health_timeout,
            in_place_timeout: self.machine_inplace_update_timeout,
            preserve_timeout: self.machine_preserve_timeout,
            node_conditions: self.node_conditions.split(',').map(str::to_owned).collect(),
            max_replacements: self.machine_max_replacements,
            missing_ready: if self.missing_ready_is_unhealthy {
                MissingReady::Unhealthy
            } else {
                MissingReady::Healthy
            },
            exhausted_retry: self.resource_exhausted_retry,
            ..policy
        }
    }
}

/// What is told while working.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Log verbosity: 0 tells what happens, 4 also why, 6 every step.
    #[arg(short, long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: i32,
    /// `text` or `json`.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: runtime::logs::LogFormat,
}

impl Run {
    /// The files of our side of TLS with the driver; all or none, clap sees to it.
    pub(crate) fn driver_tls(&self) -> Option<TlsFiles> {
        tls_files([&self.driver_ca_file, &self.driver_cert_file, &self.driver_key_file])
    }
}

impl VirtualCloud {
    /// The files of our side of TLS with controllers; all or none, clap sees to it.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        tls_files([&self.client_ca_file, &self.tls_cert_file, &self.tls_private_key_file])
    }
}

fn tls_files([authority, certificate, key]: [&Option<PathBuf>; 3]) -> Option<TlsFiles> {
    Some(TlsFiles { authority: authority.clone()?, certificate: certificate.clone()?, key: key.clone()? })
}

fn endpoint(text: &str) -> Result<Endpoint, remote_driver::EndpointError> {
    text.parse()
}

/// A duration as Go writes it, which is how every existing manifest spells these flags.
pub(crate) fn go_duration(text: &str) -> Result<std::time::Duration, String> {
    let duration: api::GoDuration =
        text.parse().map_err(|error| format!("{error}; write it like 90s, 20m or 1h30m"))?;
    if duration.is_negative() { Err("it must not be negative".to_owned()) } else { Ok(duration.to_std()) }
}

fn positive(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("it must be a number above zero".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_with(flags: &[&str]) -> Result<Run, clap::Error> {
        let line = ["millwright", "run"].iter().chain(flags);
        Arguments::try_parse_from(line).map(|a| match a.command {
            Command::Run(run) => *run,
            other => panic!("expected run, got {other:?}"),
        })
    }

    #[test]
    fn flags_are_spelled_as_in_existing_manifests() {
        let run =
            run_with(&["--leader-elect=false", "--machine-creation-timeout=1h30m", "--v=3", "--kube-api-qps", "150"])
                .unwrap();
        assert!(!run.leader_elect);
        assert_eq!(run.machine_creation_timeout.as_secs(), 5400);
        assert_eq!(run.log.verbosity, 3);
        let run = run_with(&["--bootstrap-token-auth-extra-groups=system:bootstrappers:x"]).unwrap();
        assert_eq!(run.bootstrap_token_auth_extra_groups, "system:bootstrappers:x");
        assert_eq!(run.driver_calls_per_credential, 50);
        assert!(run_with(&["--leader-elect"]).unwrap().leader_elect);
        assert_eq!(run_with(&["-v=4"]).unwrap().log.verbosity, 4);
    }

    #[test]
    fn without_flags_machines_are_given_up_as_the_reference_does_it() {
        let run = run_with(&[]).unwrap();
        let policy = run.health.apply(plan::Policy::default());
        assert_eq!(policy, plan::Policy::default());
        assert_eq!(policy.creation_timeout, run.machine_creation_timeout);
        let run =
            run_with(&["--machine-max-replacements=25%", "--node-conditions=A,B", "--missing-ready-is-unhealthy"]);
        let policy = run.unwrap().health.apply(plan::Policy::default());
        assert_eq!(policy.max_replacements, plan::permit::Limit::Percent(25));
        assert_eq!(policy.node_conditions, ["A", "B"]);
        let said = run_with(&["--machine-max-replacements=some"]).unwrap_err().to_string();
        assert!(said.contains("neither a number such as 2 nor a percentage"), "{said}");
    }

    #[test]
    fn a_wrong_flag_is_told_in_a_sentence_that_names_the_fix() {
        let said = run_with(&["--machine-creation-timeout=20"]).unwrap_err().to_string();
        assert!(said.contains("--machine-creation-timeout") && said.contains("write it like 90s"), "{said}");
        let said = run_with(&["--kube-api-qps=0"]).unwrap_err().to_string();
        assert!(said.contains("above zero"), "{said}");
        let said = run_with(&["--driver-endpoint=/run/driver.sock"]).unwrap_err().to_string();
        assert!(said.contains("--driver-endpoint") && said.contains("unix:/run/driver.sock"), "{said}");
        let said = run_with(&["--driver-endpoint=tcp+mtls://d:1", "--driver-ca-file=ca"]).unwrap_err().to_string();
        assert!(said.contains("--driver-cert-file"), "{said}");
        let said = run_with(&["--nonsense"]).unwrap_err();
        assert_eq!(said.exit_code(), 2);
    }
}
