//! User agent of requests to API servers.
//!
//! Audit logs and priority levels match the user agent, so it has the form of client-go: `<binary>/<version>
//! (<os>/<arch>) kubernetes/<commit>/<suffix>`. The suffix distinguishes the clients of one process.

use http::HeaderValue;

/// The user agent of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAgent {
    text: String,
}

impl UserAgent {
    /// Returns the user agent of a program, without a suffix.
    pub fn new(binary: &str, version: &str, commit: &str) -> Self {
        let (os, arch) = (std::env::consts::OS, arch_as_go_names_it(std::env::consts::ARCH));
        Self { text: format!("{binary}/{version} ({os}/{arch}) kubernetes/{commit}") }
    }

    /// Returns the user agent of one client of that program.
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> Self {
        Self { text: format!("{}/{suffix}", self.text) }
    }

    /// Returns the header value. Characters that are not valid in a header are removed, so that an unusual version does
    /// not fail the start.
    pub fn header(&self) -> HeaderValue {
        let clean: String = self.text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        HeaderValue::from_str(&clean).unwrap_or_else(|_| HeaderValue::from_static("millwright"))
    }
}

fn arch_as_go_names_it(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_form_that_audit_logs_know() {
        let agent = UserAgent::new("machine-controller", "v0.1.0", "abc123").with_suffix("machine-leader-election");
        let (os, arch) = (std::env::consts::OS, arch_as_go_names_it(std::env::consts::ARCH));
        let expected = format!("machine-controller/v0.1.0 ({os}/{arch}) kubernetes/abc123/machine-leader-election");
        assert_eq!(agent.header(), expected.as_str());
    }

    #[test]
    fn an_odd_version_text_does_not_stop_the_program() {
        assert!(UserAgent::new("m", "v1\nx-evil: yes", "ü").header().to_str().unwrap().starts_with("m/v1x-evil"));
    }
}
