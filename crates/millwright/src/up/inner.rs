//! The inner process of `up`. It runs in the namespaces, which end when it ends.

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

/// Timeout for Nodes to become ready.
const READY_TIMEOUT: Duration = Duration::from_mins(5);
/// Interval of checks for ready Nodes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Delay before the controllers are restarted. They exit when they lose their lease, for example after a laptop was
/// suspended.
const RESTART_DELAY: Duration = Duration::from_secs(2);

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
    let ca = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let port = plane.layout().ports.api_server;
    let (provider, network) = (options.provider.name(), options.network);
    let cluster = join::Cluster { provider, name: &options.pool, authority: &ca, port, network };
    apply(&plane, &objects::pool(options, &cluster, &class(options, &cluster, &layout)?).to_string())?;
    until_usable(&plane, options.machines as usize).await?;
    print::line(READY);
    loop {
        controllers.until_ended().await?;
        sleep(RESTART_DELAY).await;
        controllers = start_controllers(&plane, options, &layout)?;
    }
}

/// Returns the providerSpec of the MachineClass.
fn class(options: &Up, cluster: &join::Cluster<'_>, layout: &Layout) -> anyhow::Result<Value> {
    let missing = "the boot files of the machines are missing";
    Ok(match options.provider {
        UpProvider::Host => objects::namespaces(options, cluster, &Boot::find()?.context(missing)?, &layout.machines()),
        UpProvider::Qemu => {
            objects::virtual_machines(options, cluster, &VmBoot::find()?.context(missing)?, &layout.virtual_machines())
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

/// Returns the URL of the API server for the host.
fn server(options: &Up, plane: &ControlPlane) -> String {
    format!("https://{}:{}", options.network.gateway(), plane.layout().ports.api_server)
}

/// Writes a file that only its owner may read, because it contains a key.
fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn definitions() -> anyhow::Result<String> {
    let all = api::crd::all().context("failed to serialize the CRDs as YAML")?;
    Ok(all.into_iter().flat_map(|(_, yaml)| ["---\n".to_owned(), yaml]).collect())
}

fn start_controllers(plane: &ControlPlane, options: &Up, layout: &Layout) -> anyhow::Result<Guarded> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let arguments = [
        "run".to_owned(),
        format!("--provider={}", options.provider.name()),
        format!("--target-kubeconfig={}", plane.kubeconfig_path().display()),
        "--machine-creation-timeout=5m".to_owned(),
        "--machine-health-timeout=2m".to_owned(),
        "--v=3".to_owned(),
    ];
    Ok(Guarded::start(&program, &arguments, &layout.log())?)
}

fn apply(plane: &ControlPlane, objects: &str) -> anyhow::Result<()> {
    kubectl(plane, &["apply", "--server-side", "--filename=-"], objects).map(drop)
}

/// Runs kubectl as administrator with this standard input.
fn kubectl(plane: &ControlPlane, arguments: &[&str], input: &str) -> anyhow::Result<Vec<u8>> {
    let mut kubectl = plane.kubectl();
    kubectl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = kubectl.spawn().context("failed to start kubectl")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).context("failed to write to kubectl")?;
    }
    let ended = child.wait_with_output().context("failed to wait for kubectl")?;
    let stderr = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "kubectl {} failed: {}", arguments.join(" "), stderr.trim());
    Ok(ended.stdout)
}

/// Prints the number of ready Nodes until all are ready.
async fn until_usable(plane: &ControlPlane, machines: usize) -> anyhow::Result<()> {
    let (begin, mut printed) = (Instant::now(), None);
    loop {
        let nodes: Value = serde_json::from_slice(&kubectl(plane, &["get", "nodes", "--output=json"], "")?)?;
        let ready = objects::usable(&nodes);
        if printed.replace(ready) != Some(ready) {
            print::line(bar(ready, machines));
        }
        if ready >= machines {
            return Ok(());
        }
        ensure!(
            begin.elapsed() < READY_TIMEOUT,
            "only {ready} of {machines} machines were ready after {} s",
            READY_TIMEOUT.as_secs()
        );
        sleep(POLL_INTERVAL).await;
    }
}
