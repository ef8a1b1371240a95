//! `millwright api-server`: the embedded API server on loopback, with the CRDs installed.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use fake_apiserver::loopback;
use fake_apiserver::{Options, Server};
use runtime::{Clock, Random, signals};
use tokio_util::sync::CancellationToken;

use crate::cli::ApiServer;
use crate::print;

pub(crate) fn run(options: &ApiServer) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    runtime.block_on(serve(options))
}

async fn serve(options: &ApiServer) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    let server = Server::new(Options::new(Arc::new(move || clock.now()), Random::from_entropy().number()));
    install_crds(&server)?;
    let running = loopback::serve(server.clone(), loopback::Options { port: options.port }).await?;
    running.write_kubeconfig(&options.kubeconfig)?;
    print::line(format!("The in-memory API server listens on https://{}.", running.address));
    let kubeconfig = options.kubeconfig.display();
    print::line(format!("Kubeconfig: {kubeconfig}. All objects are lost when the server stops."));
    let stop = CancellationToken::new();
    let signals = signals::listen()?;
    tokio::select! {
        signal = signals::handle(signals, stop.clone()) => Ok(crate::exit_code_of(signal)),
        () = async { stop.cancelled().await; running.shutdown().await } => Ok(ExitCode::SUCCESS),
        never = server.keep_house() => match never {},
    }
}

/// Installs the CRDs of the four kinds.
pub(crate) fn install_crds(server: &Server) -> anyhow::Result<()> {
    for definition in api::crd::definitions() {
        server
            .insert(&definition)
            .map_err(|failure| anyhow!("failed to install a CustomResourceDefinition: {failure:?}"))?;
    }
    Ok(())
}
