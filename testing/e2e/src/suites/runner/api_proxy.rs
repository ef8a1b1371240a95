//! A kubeconfig that leads through a proxy, for one process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::proxy::Proxy;
use crate::test_bed::TestBed;

/// The proxy of one process.
pub(crate) struct ApiProxy {
    proxy: Proxy,
    kubeconfig: PathBuf,
}

impl ApiProxy {
    /// Opens a proxy for the process with this name.
    pub(super) fn open(test_bed: &TestBed<'_>, name: &str) -> anyhow::Result<Self> {
        let direct = test_bed.kubeconfig();
        let server: SocketAddr = direct
            .server()
            .trim_start_matches("https://")
            .parse()
            .with_context(|| format!("failed to read the address {}", direct.server()))?;
        let proxy = Proxy::open(server)?;
        let text = direct.text().replace(direct.server(), &format!("https://{}", proxy.address()));
        let kubeconfig = test_bed.file(&format!("{name}.kubeconfig"));
        fs::write(&kubeconfig, text).with_context(|| format!("failed to write {}", kubeconfig.display()))?;
        Ok(Self { proxy, kubeconfig })
    }

    /// Returns the kubeconfig that leads through the proxy.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Stops forwarding.
    pub(crate) fn cut(&self) {
        self.proxy.cut();
    }

    /// Resumes forwarding, starting with delayed data.
    pub(crate) fn restore(&self) {
        self.proxy.restore();
    }
}
