//! Flags of the web view.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

/// Whether pools are shown in a browser, and to whom.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NEW)]
pub(crate) struct WebViewFlags {
    /// Serve a web view: pools as a picture, drains, cloud calls, what was decided and why. Not in the image.
    #[arg(long)]
    ui: bool,
    /// Where the web view is served. Beyond loopback it needs a certificate, and whoever looks a token of somebody who may get the non-resource URL `/ui`.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10260")]
    ui_address: SocketAddr,
    /// The certificate of the web view, and those between it and its authority, as PEM.
    #[arg(long, value_name = "FILE")]
    ui_tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE")]
    ui_tls_private_key_file: Option<PathBuf>,
}

/// A web view as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebViewWish<'a> {
    /// Where.
    pub(crate) address: SocketAddr,
    /// Certificate and key; always there beyond loopback.
    pub(crate) tls: Option<(&'a Path, &'a Path)>,
}

impl WebViewFlags {
    /// What was asked for, if it was.
    pub(crate) fn wish(&self) -> Option<WebViewWish<'_>> {
        let tls = self.ui_tls_cert_file.as_deref().zip(self.ui_tls_private_key_file.as_deref());
        self.ui.then_some(WebViewWish { address: self.ui_address, tls })
    }

    /// What does not go together.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (certificate, key) = (&self.ui_tls_cert_file, &self.ui_tls_private_key_file);
        if certificate.is_some() != key.is_some() {
            return Some("--ui-tls-cert-file and --ui-tls-private-key-file need each other".to_owned());
        }
        let open = self.ui && !self.ui_address.ip().is_loopback() && certificate.is_none();
        open.then(|| {
            format!(
                "--ui-address={} is not loopback, so it needs --ui-tls-cert-file and --ui-tls-private-key-file: tokens must not travel in the open",
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
    fn beyond_loopback_there_is_a_certificate_or_no_view(#[case] flags: &[&str], #[case] fine: bool) {
        let line = Line::parse_from(std::iter::once(&"millwright").chain(flags));
        assert_eq!(line.ui.contradiction().is_none(), fine, "{:?}", line.ui.contradiction());
        assert_eq!(line.ui.wish().is_some(), flags.contains(&"--ui"));
    }
}
