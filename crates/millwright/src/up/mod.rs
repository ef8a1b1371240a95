//! `millwright up`: a real control plane, the controllers and a pool of Machines with real kubelets on this host.
//! `millwright down` removes all of it.
//!
//! It consists of two processes. The outer process, which the user starts, compiles everything, starts the inner
//! process in its own network, mount and pid namespaces (`lab_node::namespaces`), connects the host with them, and
//! prints the progress of the inner process. The inner process runs the control plane, the controllers and the Machines
//! until the namespaces end. To stop everything, one process is killed and the kernel ends all others. Files and
//! cgroups are not in a namespace; [`down`] removes them.

mod down;
mod inner;
mod layout;
mod link;
mod objects;
mod processes;
mod progress;

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use control_plane::compile::{Compiler, Progress};
use control_plane::{Cache, Program, Recipe};
use lab_node::boot::{Boot, VmBoot};
use lab_node::namespaces;
use runtime::signals;
use tokio_util::sync::CancellationToken;

use crate::cli::{Down, Up, UpProvider};
use crate::print;
use layout::Layout;
use progress::{ProgressPrinter, READY};

/// Name of the init process of the namespaces in `ps`.
const NAME: &str = "millwright-up";
/// Interval of checks for progress of the inner process.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Up) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async { if options.in_namespaces { inner::run(options).await } else { run_outer(options).await } })
}

/// `millwright down`.
pub(crate) fn down(options: &Down) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async {
        let layout = Layout::at(&options.directory);
        let found = down::down(&layout).await?;
        let place = options.directory.display();
        print::line(if found {
            format!("{place} was stopped and removed")
        } else {
            format!("no cluster runs in {place}")
        });
        Ok(ExitCode::SUCCESS)
    })
}

async fn run_outer(options: &Up) -> anyhow::Result<ExitCode> {
    let layout = Layout::at(&options.directory);
    if processes::any_running(&layout)? {
        bail!(
            "a cluster already runs in {}. Its kubeconfig is {}. `millwright down` stops it",
            options.directory.display(),
            layout.kubeconfig().display()
        );
    }
    if let Some(reason) = namespaces::forbidden() {
        bail!("{reason}");
    }
    if options.provider == UpProvider::Qemu {
        crate::built_in::qemu_driver().check().map_err(|error| anyhow!("{}", error.message()))?;
        let unsupported = "--images requires --provider=host: a virtual machine cannot access directories of this host";
        ensure!(options.images.is_none(), "{unsupported}");
    }
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    let work = async {
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(None),
            outcome = bring_up(options, &layout) => outcome.map(Some),
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        signal = signals::handle(signals, stop.clone()) => return Ok(crate::exit_code_of(signal)),
    };
    match outcome {
        Ok(Some(kubectl)) => {
            print_instructions(options, &layout, &kubectl);
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => {
            down::down(&layout).await.context("failed to clean up")?;
            print::line("interrupted: everything was stopped and removed");
            Ok(ExitCode::from(130))
        }
        Err(error) => {
            // The error that is returned is more useful than an error of the cleanup.
            let _ = down::down(&layout).await;
            Err(error)
        }
    }
}

/// Builds what is missing, starts the inner process and waits until its Nodes are ready. Returns the path of kubectl.
async fn bring_up(options: &Up, layout: &Layout) -> anyhow::Result<std::path::PathBuf> {
    let mut printer = ProgressPrinter::new();
    let recipe = Recipe::of_this_repository()?;
    let all = recipe.programs().len();
    let report = |progress: Progress| printer.print(&format!("control plane: {}", progress.sentence(all)));
    let binaries = Compiler::default().compile(&recipe, &Cache::of_this_user()?, report).await?;
    let report = |line: &str| printer.print(&format!("machines: {line}"));
    match options.provider {
        UpProvider::Host => drop(Boot::build(report).await?),
        UpProvider::Qemu => drop(VmBoot::build(report).await?),
    }

    // Remove the remains of a killed `up`.
    down::down(layout).await?;
    link::is_free(options.network)?;
    layout.create()?;
    let mut inner = start(options, layout)?;
    link::connect(inner.id(), options.network).await?;
    follow(layout, &mut inner, &mut printer).await?;
    Ok(binaries.path(Program::Kubectl))
}

/// Starts the inner process in its own process group, so that it continues when this process ends.
fn start(options: &Up, layout: &Layout) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let file = |path: &Path| File::create(path).with_context(|| format!("failed to create {}", path.display()));
    Command::new(namespaces::UNSHARE)
        .args(namespaces::around(options.network, NAME))
        .arg(program)
        .args(options.inner_arguments())
        .stdin(Stdio::null())
        .stdout(file(&layout.progress())?)
        .stderr(file(&layout.log())?)
        .process_group(0)
        .spawn()
        .context("failed to start unshare")
}

/// Prints the progress of the inner process until it is ready or has ended.
async fn follow(layout: &Layout, inner: &mut Child, printer: &mut ProgressPrinter) -> anyhow::Result<()> {
    let mut position = 0;
    loop {
        let ended = inner.try_wait().context("failed to wait for the inner process")?;
        let lines = layout.progress_lines()?;
        for line in lines.get(position..).unwrap_or_default() {
            if line == READY {
                printer.end();
                return Ok(());
            }
            printer.print(line);
        }
        position = lines.len();
        ensure!(
            ended.is_none(),
            "failed to start the cluster. The last lines of its log:\n{}",
            control_plane::guard::tail(&layout.log(), 12)
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print_instructions(options: &Up, layout: &Layout, kubectl: &Path) {
    let (kubeconfig, kubectl, pool) = (layout.kubeconfig(), kubectl.display(), &options.pool);
    let kubeconfig = kubeconfig.display();
    print::line(format!(
        "A cluster with {} real nodes is running. `millwright down` removes it.\n\n  \
           export KUBECONFIG={kubeconfig}\n  \
           kubectl get nodes,machines\n  \
           kubectl create deployment web --image=millwright.local/busybox:1 -- sleep 1000000\n  \
           kubectl scale machinedeployment {pool} --replicas={}\n\n\
         kubectl is at {kubectl}, the log of the cluster is {}.",
        options.machines,
        options.machines + 1,
        layout.log().display()
    ));
}
