//! Flags of the web view.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

/// Whether and where the web view is served.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
pub(crate) struct WebViewFlags {
    /// Serve the web view: pools, drains, cloud calls, and every decision with its reason. Not in the image.
    #[arg(long)]
    ui: bool,
    /// Address of the web view. An address other than loopback requires a certificate, and users authenticate with a
    /// token that has permission to get the non-resource URL `/ui`.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10260")]
    ui_address: SocketAddr,
    /// Certificate chain of the web view, as PEM.
    #[arg(long, value_name = "FILE")]
    ui_tls_cert_file: Option<PathBuf>,
    /// Private key of the web view, as PEM.
    #[arg(long, value_name = "FILE")]
    ui_tls_private_key_file: Option<PathBuf>,
}

/// Options of the web view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebViewOptions<'a> {
    /// The address.
    pub(crate) address: SocketAddr,
    /// Certificate and key. Always present if the address is not loopback.
    pub(crate) tls: Option<(&'a Path, &'a Path)>,
}

impl WebViewFlags {
    /// Returns the options if the web view is enabled.
    pub(crate) fn options(&self) -> Option<WebViewOptions<'_>> {
        let tls = self.ui_tls_cert_file.as_deref().zip(self.ui_tls_private_key_file.as_deref());
        self.ui.then_some(WebViewOptions { address: self.ui_address, tls })
    }

    /// Returns the conflict between two flags, if there is one.
    pub(super) fn conflict(&self) -> Option<String> {
        let (certificate, key) = (&self.ui_tls_cert_file, &self.ui_tls_private_key_file);
        if certificate.is_some() != key.is_some() {
            return Some("--ui-tls-cert-file and --ui-tls-private-key-file must be set together".to_owned());
        }
        let open = self.ui && !self.ui_address.ip().is_loopback() && certificate.is_none();
        open.then(|| {
            format!(
                "--ui-address={} is not a loopback address. Set --ui-tls-cert-file and --ui-tls-private-key-file, because tokens require an encrypted connection",
                self.ui_address
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use rstest::rstest;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        ui: WebViewFlags,
    }

    /// Shows OPR-11.
    #[rstest]
    #[case(&[], true)]
    #[case(&["--ui"], true)]
    #[case(&["--ui", "--ui-address=[::1]:80"], true)]
    #[case(&["--ui", "--ui-address=0.0.0.0:80"], false)]
    #[case(&["--ui", "--ui-address=10.0.0.1:80", "--ui-tls-cert-file=c"], false)]
    #[case(&["--ui", "--ui-address=10.0.0.1:80", "--ui-tls-cert-file=c", "--ui-tls-private-key-file=k"], true)]
    fn web_view_requires_a_certificate_beyond_loopback(#[case] flags: &[&str], #[case] valid: bool) {
        let line = Line::parse_from(std::iter::once(&"millwright").chain(flags));
        assert_eq!(line.ui.conflict().is_none(), valid, "{:?}", line.ui.conflict());
        assert_eq!(line.ui.options().is_some(), flags.contains(&"--ui"));
    }
}
