//! Arguments of the commands of the feature `inspect`, which show and control the Machines of a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::values;
use crate::inspect_commands::{Account, Leader};

#[derive(Debug, Subcommand)]
pub(crate) enum InspectCommand {
    /// Show pools as a tree of MachineDeployment, MachineSet, Machine, Node and VM, with the reason for every problem
    Status(Status),
    /// Explain why a Machine, MachineSet or MachineDeployment is in its current state, what happens next, and how to
    /// fix it
    Explain(Explain),
    /// Show, list, undo, pause, resume and restart rollouts, as `kubectl rollout` does for Deployments
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Find configuration mistakes in a cluster or in files. Exit code 1 if there are any
    Check(Preflight),
    /// Simulate the effect of applying files: number of Machines, duration and obstacles. The cluster is only read
    #[cfg(feature = "dev")]
    Plan(Plan),
    /// Print a completion script for a shell
    Completion(Completion),
    /// Write manual pages, one per command
    Man(ManPages),
}

/// Clusters to read.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the control cluster, which holds the Machines [default: the file in KUBECONFIG, else
    /// ~/.kube/config, else the service account of the pod].
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig of the target cluster, which the Nodes join [default: the control cluster]. `none` if there is none.
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub(crate) target_kubeconfig: Option<PathBuf>,
    /// Namespace of the Machines [default: the namespace of the kubeconfig context].
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Clusters")]
    pub(crate) namespace: Option<String>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Text for a terminal.
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Names of the MachineDeployments to show [default: all].
    #[arg(value_name = "DEPLOYMENT")]
    pub(crate) deployments: Vec<String>,
    /// Show healthy Machines individually.
    #[arg(long)]
    pub(crate) unfold: bool,
    /// Refresh every two seconds until interrupted. On a terminal the view is redrawn, otherwise it is printed when it
    /// has changed.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// `machine/NAME`, `machineset/NAME` or `machinedeployment/NAME`, or kind and name as two arguments.
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) object: Vec<String>,
    /// Address of the leader, which is queried for state that no object holds: `:PORT` of its pod, through the API
    /// server proxy; `HOST:PORT`, for example of `kubectl port-forward`; `none` to skip the query [default: the pod of
    /// the leader, at the default port of its component].
    #[arg(long, value_name = "ADDRESS", default_value = "pod", hide_default_value = true, value_parser = leader)]
    pub(crate) leader: Leader,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

fn leader(text: &str) -> Result<Leader, String> {
    let port = |port: &str| port.parse::<u16>().ok();
    match (text, text.rsplit_once(':')) {
        ("pod", _) => Ok(Leader::Pod(None)),
        ("none", _) => Ok(Leader::None),
        (_, Some(("", at))) if port(at).is_some() => Ok(Leader::Pod(port(at))),
        (address, Some((_, at))) if port(at).is_some() => Ok(Leader::At(address.to_owned())),
        _ => Err("expected HOST:PORT, :PORT or none".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Preflight {
    /// Files or directories with manifests, `-` for stdin. With --kubeconfig they are checked as if they were applied
    /// to that cluster, otherwise on their own.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Account whose permissions are checked in a cluster: the service account `NAMESPACE/NAME` of the controllers,
    /// `self` for the user of the kubeconfigs, `none` to skip the check [default: the service account of the leader's
    /// pod].
    #[arg(long, value_name = "ACCOUNT", default_value = "leader", hide_default_value = true, value_parser = account)]
    pub(crate) account: Account,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

fn account(text: &str) -> Result<Account, String> {
    match (text, text.split_once('/')) {
        ("leader", _) => Ok(Account::Leader),
        ("self", _) => Ok(Account::CurrentUser),
        ("none", _) => Ok(Account::None),
        (_, Some((namespace, name))) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Account::Named { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("expected NAMESPACE/NAME, self or none".to_owned()),
    }
}

#[cfg(feature = "dev")]
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Files or directories with the changed objects, `-` for stdin.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Maximum number of VMs in the cloud.
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<usize>,
    /// Time from the creation of a Machine until its Node joins [default: as measured for Machines of the same
    /// MachineClass, else 2m].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) boot_time: Option<Duration>,
    /// Time that the cloud takes to delete a VM [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) delete_time: Option<Duration>,
    /// Time that a pod takes to terminate, up to its grace period [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) pod_end_time: Option<Duration>,
    /// Maximum simulated time.
    #[arg(long, value_name = "DURATION", default_value = "6h", value_parser = values::duration)]
    pub(crate) horizon: Duration,
    /// File to write the chart to as SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// Shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManPages {
    /// Output directory, for example ~/.local/share/man/man1.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Wait until a rollout is complete. Exit code 0, or 1 if it exceeds its progress deadline or the timeout
    Status(RolloutStatus),
    /// List the revisions of a MachineDeployment
    History(RolloutHistory),
    /// Roll back to an earlier revision
    Undo(RolloutUndo),
    /// Pause rollouts of template changes. Scaling continues
    Pause(DeploymentArgs),
    /// Resume rollouts of template changes
    Resume(DeploymentArgs),
    /// Replace all Machines by new Machines of the same template, with the strategy of the MachineDeployment
    Restart(DeploymentArgs),
}

/// The MachineDeployment.
#[derive(Clone, Debug, Args)]
pub(crate) struct DeploymentArgs {
    /// `machinedeployment/NAME`, or the name only.
    #[arg(value_name = "machinedeployment/NAME", num_args = 1..=2, required = true)]
    pub(crate) deployment: Vec<String>,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutStatus {
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
    /// Wait for the end of the rollout. If false, only print its progress.
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) watch: bool,
    /// Timeout for the wait. 0 waits without a limit.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
    /// Revision to wait for. The command fails if another revision is rolled out. 0 accepts any revision.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) revision: i64,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutHistory {
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
    /// Revision whose template is shown.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<i64>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutUndo {
    #[command(flatten)]
    pub(crate) deployment: DeploymentArgs,
    /// Revision to roll back to. 0 selects the previous revision.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) to_revision: i64,
    /// Timeout for the response of the manager.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
}
