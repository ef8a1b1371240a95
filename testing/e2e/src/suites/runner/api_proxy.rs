//! A process' own way to the API server: a kubeconfig that leads through a proxy.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::proxy::Proxy;
use crate::test_bed::TestBed;

/// A proxy of its own.
pub(crate) struct ApiProxy {
    proxy: Proxy,
    kubeconfig: PathBuf,
}

impl ApiProxy {
    /// Opens one for the process of this name.
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

    /// The kubeconfig that leads through it.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Lets nothing through any more.
    pub(crate) fn cut(&self) {
        self.proxy.cut();
    }

    /// Lets everything through again, what was held back first.
    pub(crate) fn mend(&self) {
        self.proxy.mend();
    }
}
