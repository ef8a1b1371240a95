//! What can be said to the commands of the feature `inspect`: those with which a person looks after machines that run.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::values;
use crate::operator::{Account, Leader};

#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Show pools as a tree: deployment, set, machine, node, VM; what is fine is folded, what is not says why.
    Status(Status),
    /// Tell why a machine, set or deployment stands as it does, what happens next, and what helps.
    Explain(Explain),
    /// Watch, list, undo, pause, resume and restart roll-outs, as kubectl does for Deployments.
    #[command(subcommand)]
    Rollout(RolloutCommand),
    /// Find mistakes before they cost machines: in a cluster, or in files that nobody has applied yet. Exit code 1 if there are any.
    Check(Preflight),
    /// Tell what would happen if files were applied: machines at once, how long, what holds it up. The cluster is only read.
    #[cfg(feature = "dev")]
    Plan(Plan),
    /// Print a completion script for a shell.
    Completion(Completion),
    /// Write manual pages, one a command.
    Man(ManPages),
}

/// Which clusters are looked at.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The kubeconfig of the cluster that holds the machines [default: the file that KUBECONFIG names, else ~/.kube/config, else the pod's
    /// service account].
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig of the cluster that nodes join [default: the same cluster]; `none` if there is none.
    #[arg(long, value_name = "FILE", help_heading = "Clusters")]
    pub(crate) target_kubeconfig: Option<PathBuf>,
    /// The namespace of the machines [default: that of the kubeconfig's context].
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Clusters")]
    pub(crate) namespace: Option<String>,
}

/// For people, or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Only these MachineDeployments.
    #[arg(value_name = "DEPLOYMENT")]
    pub(crate) deployments: Vec<String>,
    /// Show machines that are fine one by one.
    #[arg(long)]
    pub(crate) unfold: bool,
    /// Look again every two seconds, until interrupted. On a terminal the picture is drawn anew, else it is printed when something has changed.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// `machine/NAME`, `machineset/NAME` or `machinedeployment/NAME`; or kind and name as two words.
    #[arg(value_name = "KIND/NAME", num_args = 1..=2, required = true)]
    pub(crate) object: Vec<String>,
    /// Where the leader is asked for what is in no object: `:PORT` of its pod, by the proxy of the API server; `HOST:PORT`, for example of `kubectl
    /// port-forward`; `none` not to ask [default: its pod, at the port of its component].
    #[arg(long, value_name = "ADDRESS", default_value = "pod", hide_default_value = true, value_parser = leader)]
    pub(crate) leader: Leader,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
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
    /// Files or folders of manifests, `-` for stdin. With --kubeconfig they are looked at as if they were applied there, else by themselves.
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Whose rights are looked at in a cluster: the service account `NAMESPACE/NAME` of the controllers, `self` for the user of the kubeconfigs, `none` for
    /// nobody's [default: that of the leader's pod].
    #[arg(long, value_name = "ACCOUNT", default_value = "leader", hide_default_value = true, value_parser = account)]
    pub(crate) account: Account,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

fn account(text: &str) -> Result<Account, String> {
    match (text, text.split_once('/')) {
        ("leader", _) => Ok(Account::OfTheLeader),
        ("self", _) => Ok(Account::Own),
        ("none", _) => Ok(Account::Unasked),
        (_, Some((namespace, name))) if !namespace.is_empty() && !name.is_empty() => {
            Ok(Account::Named { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("expected NAMESPACE/NAME, self or none".to_owned()),
    }
}

#[cfg(feature = "dev")]
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// Files or folders with the changed objects, `-` for stdin.
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// How many VMs the cloud has room for.
    #[arg(long, value_name = "N")]
    pub(crate) quota: Option<usize>,
    /// How long a machine takes until its node has joined [default: as long as machines of its class took, else 2m].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) boot_time: Option<Duration>,
    /// How long the cloud takes to delete a VM [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) delete_time: Option<Duration>,
    /// How long a pod takes to end, if its grace period allows so much [default: 5s].
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) pod_end_time: Option<Duration>,
    /// After how long, in the time of the copy, to give up.
    #[arg(long, value_name = "DURATION", default_value = "6h", value_parser = values::duration)]
    pub(crate) horizon: Duration,
    /// Also draw it into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManPages {
    /// The folder, for example ~/.local/share/man/man1.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Wait until a roll-out is done: exit code 0, or 1 if it stands still for longer than its progress deadline or the timeout.
    Status(RolloutStatus),
    /// List the templates that a deployment had.
    History(RolloutHistory),
    /// Go back to an earlier template.
    Undo(RolloutUndo),
    /// Let changes of the template wait; scaling goes on.
    Pause(Rolled),
    /// Let changes of the template be rolled out again.
    Resume(Rolled),
    /// Replace all machines by new ones of the same template, by the deployment's strategy.
    Restart(Rolled),
}

/// Which deployment.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rolled {
    /// `machinedeployment/NAME`, or the name alone.
    #[arg(value_name = "machinedeployment/NAME", num_args = 1..=2, required = true)]
    pub(crate) deployment: Vec<String>,
    #[command(flatten)]
    pub(crate) clusters: ClusterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutStatus {
    #[command(flatten)]
    pub(crate) rolled: Rolled,
    /// Wait for the end; with false only say how far it is.
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) watch: bool,
    /// How long to wait; 0 for as long as it takes.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
    /// Fail if another revision than this is rolled out meanwhile; 0 takes whichever it is.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) revision: i64,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutHistory {
    #[command(flatten)]
    pub(crate) rolled: Rolled,
    /// Show the template of this revision.
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<i64>,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub(crate) output: Form,
}

#[derive(Debug, Args)]
pub(crate) struct RolloutUndo {
    #[command(flatten)]
    pub(crate) rolled: Rolled,
    /// The revision to go back to; 0 is the one before the current.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) to_revision: i64,
    /// How long to wait until the manager has answered.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    pub(crate) timeout: Duration,
}
