//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Run the machine controller with the virtual cloud on an API server.
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
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
    /// Log verbosity: 0 tells what happens, 4 also why, 6 every step.
    #[arg(short, long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: i32,
    /// `text` or `json`.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: runtime::logs::LogFormat,
}

/// A duration as Go writes it, which is how every existing manifest spells these flags.
fn go_duration(text: &str) -> Result<std::time::Duration, String> {
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
            Command::Run(run) => run,
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
        assert_eq!(run.verbosity, 3);
        assert!(run_with(&["--leader-elect"]).unwrap().leader_elect);
        assert_eq!(run_with(&["-v=4"]).unwrap().verbosity, 4);
    }

    #[test]
    fn a_wrong_flag_is_told_in_a_sentence_that_names_the_fix() {
        let said = run_with(&["--machine-creation-timeout=20"]).unwrap_err().to_string();
        assert!(said.contains("--machine-creation-timeout") && said.contains("write it like 90s"), "{said}");
        let said = run_with(&["--kube-api-qps=0"]).unwrap_err().to_string();
        assert!(said.contains("above zero"), "{said}");
        let said = run_with(&["--nonsense"]).unwrap_err();
        assert_eq!(said.exit_code(), 2);
    }
}
