//! `millwright up`: a real control plane, the controllers and a pool of machines with real kubelets, on this host; `millwright down` takes all of it away.
//!
//! It has two halves. The outer one, which a person waits for, sees to it that everything is compiled, starts the inner one in network, mount and
//! process namespaces of its own (`lab_node::namespaces`), connects the host to them by one link, and tells how far the inner one is. The inner one
//! runs until the namespaces end: control plane, controllers, machines. So there is one process to kill, whoever of the others is gone, and the kernel
//! ends the rest; what no namespace holds, files and cgroups, has a place of its own and is removed by [`down`].

mod down;
mod holder;
mod inside;
mod layout;
mod link;
mod objects;
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
use progress::{READY, Teller};

/// What `ps` calls the first process inside.
const NAME: &str = "millwright-up";
/// Between two looks at how far the inner half is.
const GLANCE: Duration = Duration::from_millis(100);

pub(crate) fn run(options: &Up) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async { if options.in_namespaces { inside::run(options).await } else { outside(options).await } })
}

/// `millwright down`.
pub(crate) fn take_down(options: &Down) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(async {
        let layout = Layout::at(&options.directory);
        let found = down::down(&layout).await?;
        let place = options.directory.display();
        print::line(if found {
            format!("{place} is down, and nothing of it is left")
        } else {
            format!("{place} was not up")
        });
        Ok(ExitCode::SUCCESS)
    })
}

async fn outside(options: &Up) -> anyhow::Result<ExitCode> {
    let layout = Layout::at(&options.directory);
    if holder::is_up(&layout)? {
        bail!(
            "{} is up already: {}. `millwright down` ends it",
            options.directory.display(),
            layout.kubeconfig().display()
        );
    }
    if let Some(reason) = namespaces::forbidden() {
        bail!("{reason}");
    }
    if options.provider == UpProvider::Qemu {
        crate::built_in::qemu_driver().check().map_err(|error| anyhow!("{}", error.message()))?;
        let of_host = "--images is for machines of --provider=host: a virtual machine sees no directory of this host";
        ensure!(options.images.is_none(), "{of_host}");
    }
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    let work = async {
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(None),
            outcome = rise(options, &layout) => outcome.map(Some),
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        again = signals::obey(signals, stop.clone()) => return Ok(ExitCode::from(u8::try_from(again.exit_code()).unwrap_or(1))),
    };
    match outcome {
        Ok(Some(kubectl)) => {
            introduce(options, &layout, &kubectl);
            Ok(ExitCode::SUCCESS)
        }
        Ok(None) => {
            down::down(&layout).await.context("failed to take down what was begun")?;
            print::line("interrupted: what was begun is down again");
            Ok(ExitCode::from(130))
        }
        Err(error) => {
            // The reason of the failure is worth more than a complaint about the cleaning.
            let _ = down::down(&layout).await;
            Err(error)
        }
    }
}

/// Makes what is missing, starts the inner half and waits until its nodes are ready. Gives back where kubectl is.
async fn rise(options: &Up, layout: &Layout) -> anyhow::Result<std::path::PathBuf> {
    let mut teller = Teller::new();
    let recipe = Recipe::of_this_repository()?;
    let all = recipe.programs().len();
    let tell = |progress: Progress| teller.tell(&format!("control plane: {}", progress.sentence(all)));
    let binaries = Compiler::default().compile(&recipe, &Cache::of_this_user()?, tell).await?;
    let tell = |line: &str| teller.tell(&format!("machines: {line}"));
    match options.provider {
        UpProvider::Host => drop(Boot::build(tell).await?),
        UpProvider::Qemu => drop(VmBoot::build(tell).await?),
    }

    // What a killed one left, if anything.
    down::down(layout).await?;
    link::is_free(options.network)?;
    layout.make()?;
    let mut inner = start(options, layout)?;
    link::connect(inner.id(), options.network).await?;
    follow(layout, &mut inner, &mut teller).await?;
    Ok(binaries.path(Program::Kubectl))
}

/// The inner half, in a process group of its own: it lives on when this process ends.
fn start(options: &Up, layout: &Layout) -> anyhow::Result<Child> {
    let ourselves = std::env::current_exe().context("failed to find this program")?;
    let file = |path: &Path| File::create(path).with_context(|| format!("failed to make {}", path.display()));
    Command::new(namespaces::UNSHARE)
        .args(namespaces::around(options.network, NAME))
        .arg(ourselves)
        .args(options.inner_arguments())
        .stdin(Stdio::null())
        .stdout(file(&layout.progress())?)
        .stderr(file(&layout.log())?)
        .process_group(0)
        .spawn()
        .context("failed to start unshare")
}

/// Tells what the inner half tells, until it is ready or has ended.
async fn follow(layout: &Layout, inner: &mut Child, teller: &mut Teller) -> anyhow::Result<()> {
    let mut told = 0;
    loop {
        let ended = inner.try_wait().context("failed to look after what was started")?;
        let said = layout.told()?;
        for line in said.get(told..).unwrap_or_default() {
            if line == READY {
                teller.end();
                return Ok(());
            }
            teller.tell(line);
        }
        told = said.len();
        ensure!(
            ended.is_none(),
            "failed to come up. The last lines of its log:\n{}",
            control_plane::guard::tail(&layout.log(), 12)
        );
        tokio::time::sleep(GLANCE).await;
    }
}

fn introduce(options: &Up, layout: &Layout, kubectl: &Path) {
    let (kubeconfig, kubectl, pool) = (layout.kubeconfig(), kubectl.display(), &options.pool);
    let kubeconfig = kubeconfig.display();
    print::line(format!(
        "A cluster with {} real nodes is up. `millwright down` takes it away.\n\n  \
           export KUBECONFIG={kubeconfig}\n  \
           kubectl get nodes,machines\n  \
           kubectl create deployment web --image=millwright.local/busybox:1 -- sleep 1000000\n  \
           kubectl scale machinedeployment {pool} --replicas={}\n\n\
         If you have no kubectl, one is at {kubectl}. Its log is {}.",
        options.machines,
        options.machines + 1,
        layout.log().display()
    ));
}
