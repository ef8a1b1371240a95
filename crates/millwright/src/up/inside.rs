//! The inner half: it runs in the namespaces, and they end when it does.

use std::fs;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use control_plane::guard::Guarded;
use control_plane::{Binaries, Cache, ControlPlane, Options, Program, Recipe};
use lab_node::boot::{Boot, VmBoot};
use lab_node::join;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::layout::Layout;
use super::progress::{READY, bar};
use super::{link, objects};
use crate::cli::{Up, UpProvider};
use crate::print;

/// How long machines may take until their nodes are ready.
const PATIENCE: Duration = Duration::from_mins(5);
/// Between two looks at the nodes.
const GLANCE: Duration = Duration::from_millis(500);
/// Controllers end when they lose their lease, as they do when a laptop sleeps. They are started again after this long.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(options: &Up) -> anyhow::Result<ExitCode> {
    let layout = Layout::at(&options.directory);
    link::join_bridge().await?;
    print::line("starting the control plane");
    let plane = ControlPlane::start(plane_options(options)?).await?;
    let kubeconfig = plane.kubeconfig().at(&server(options, &plane));
    write_private(&layout.kubeconfig(), kubeconfig.text())?;

    print::line("starting the controllers");
    apply(&plane, &definitions()?)?;
    kubectl(&plane, &["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"], "")?;
    apply(&plane, &join::rights().to_string())?;
    let mut controllers = start_controllers(&plane, options, &layout)?;
    let path = plane.layout().pki("ca.crt");
    let authority = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let port = plane.layout().ports.api_server;
    let (provider, network) = (options.provider.name(), options.network);
    let cluster = join::Cluster { provider, name: &options.pool, authority: &authority, port, network };
    apply(&plane, &objects::pool(options, &cluster, &class(options, &cluster, &layout)?).to_string())?;
    until_usable(&plane, options.machines as usize).await?;
    print::line(READY);
    loop {
        controllers.until_ended().await?;
        sleep(PAUSE).await;
        controllers = start_controllers(&plane, options, &layout)?;
    }
}

/// What a class says of the machines.
fn class(options: &Up, cluster: &join::Cluster<'_>, layout: &Layout) -> anyhow::Result<Value> {
    let gone = "what machines boot from is gone";
    Ok(match options.provider {
        UpProvider::Host => objects::namespaces(options, cluster, &Boot::find()?.context(gone)?, &layout.machines()),
        UpProvider::Qemu => {
            objects::virtual_machines(options, cluster, &VmBoot::find()?.context(gone)?, &layout.virtual_machines())
        }
    })
}

fn plane_options(options: &Up) -> anyhow::Result<Options> {
    let binaries = Binaries::find(&Cache::of_this_user()?, &Recipe::of_this_repository()?)?;
    let base = Options {
        parent: Some(options.directory.clone()),
        also_at: Some(IpAddr::V4(options.network.gateway())),
        ..Options::new(binaries)
    };
    Ok(base
        .with_argument(Program::ApiServer, "--enable-bootstrap-token-auth=true")
        .with_argument(Program::ApiServer, "--kubelet-preferred-address-types=InternalIP")
        .with_argument(Program::ControllerManager, "--controllers=*,tokencleaner"))
}

/// The API server, as the host sees it.
fn server(options: &Up, plane: &ControlPlane) -> String {
    format!("https://{}:{}", options.network.gateway(), plane.layout().ports.api_server)
}

/// Readable by its owner alone: it holds a key.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn definitions() -> anyhow::Result<String> {
    let all = api::crd::all().context("failed to write the definitions as YAML")?;
    Ok(all.into_iter().flat_map(|(_, yaml)| ["---\n".to_owned(), yaml]).collect())
}

fn start_controllers(plane: &ControlPlane, options: &Up, layout: &Layout) -> anyhow::Result<Guarded> {
    let ourselves = std::env::current_exe().context("failed to find this program")?;
    let arguments = [
        "run".to_owned(),
        format!("--provider={}", options.provider.name()),
        format!("--target-kubeconfig={}", plane.kubeconfig_path().display()),
        "--machine-creation-timeout=5m".to_owned(),
        "--machine-health-timeout=2m".to_owned(),
        "--v=3".to_owned(),
    ];
    Ok(Guarded::start(&ourselves, &arguments, &layout.log())?)
}

fn apply(plane: &ControlPlane, objects: &str) -> anyhow::Result<()> {
    kubectl(plane, &["apply", "--server-side", "--filename=-"], objects).map(drop)
}

/// Runs kubectl as administrator, with this as its standard input.
fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> anyhow::Result<Vec<u8>> {
    let mut kubectl = plane.kubectl();
    kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = kubectl.spawn().context("failed to start kubectl")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).context("failed to talk to kubectl")?;
    }
    let ended = child.wait_with_output().context("failed to wait for kubectl")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "kubectl {} failed: {}", arguments.join(" "), said.trim());
    Ok(ended.stdout)
}

/// Tells how many machines are ready, until all are.
async fn until_usable(plane: &ControlPlane, machines: usize) -> anyhow::Result<()> {
    let (begin, mut told) = (Instant::now(), None);
    loop {
        let nodes: Value = serde_json::from_slice(&kubectl(plane, &["get", "nodes", "--output=json"], "")?)?;
        let ready = objects::usable(&nodes);
        if told.replace(ready) != Some(ready) {
            print::line(bar(ready, machines));
        }
        if ready >= machines {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < PATIENCE,
            "only {ready} of {machines} machines were ready after {} s",
            PATIENCE.as_secs()
        );
        sleep(GLANCE).await;
    }
}
