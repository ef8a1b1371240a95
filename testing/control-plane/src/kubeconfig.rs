//! A kubeconfig with embedded certificates, so that it can be moved or copied.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::authority::Identity;

/// The address of an API server and the credentials of a user. The text contains a private key, so `Debug` does not
/// print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    server: String,
    text: String,
}

impl Kubeconfig {
    /// Creates a kubeconfig for the owner of `identity`; `authority` is the certificate of the server's CA.
    pub(crate) fn new(server: &str, authority: &str, identity: &Identity) -> Self {
        let encode = |pem: &str| STANDARD.encode(pem);
        let text = format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: millwright\n\
             \x20 cluster:\n\
             \x20   server: {server}\n\
             \x20   certificate-authority-data: {}\n\
             users:\n\
             - name: millwright\n\
             \x20 user:\n\
             \x20   client-certificate-data: {}\n\
             \x20   client-key-data: {}\n\
             contexts:\n\
             - name: millwright\n\
             \x20 context:\n\
             \x20   cluster: millwright\n\
             \x20   user: millwright\n\
             \x20   namespace: default\n\
             current-context: millwright\n",
            encode(authority),
            encode(&identity.certificate),
            encode(&identity.key),
        );
        Self { server: server.to_owned(), text }
    }

    /// Returns the kubeconfig with another address of the API server.
    #[must_use]
    pub fn at(&self, server: &str) -> Self {
        let text = self.text.replacen(&format!("server: {}\n", self.server), &format!("server: {server}\n"), 1);
        Self { server: server.to_owned(), text }
    }

    /// Returns the file content as YAML.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the address of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_holds_everything_and_debug_output_does_not() {
        let identity = Identity { certificate: "CERT".to_owned(), key: "KEY".to_owned() };
        let config = Kubeconfig::new("https://127.0.0.1:6443", "CA", &identity);
        let expected = "    server: https://127.0.0.1:6443\n    certificate-authority-data: Q0E=\nusers:\n- name: millwright\n  user:\n    client-certificate-data: Q0VSVA==\n    client-key-data: S0VZ\n";
        assert!(config.text().contains(expected), "{}", config.text());
        let elsewhere = config.at("https://10.0.0.1:6443");
        assert_eq!(elsewhere.server(), "https://10.0.0.1:6443");
        assert_eq!(elsewhere.text(), config.text().replace("127.0.0.1", "10.0.0.1"));
        assert_eq!(format!("{config:?}"), "Kubeconfig { server: \"https://127.0.0.1:6443\", .. }");
    }
}
