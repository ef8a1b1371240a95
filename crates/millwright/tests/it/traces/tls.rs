//! Tests of trace export over TLS: trusted and untrusted CA certificates.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rstest::rstest;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::{TracesFixture, attribute, page};
use crate::program::{run, text};

/// A test CA.
struct TestCa {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl TestCa {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// Returns an acceptor with a certificate for 127.0.0.1.
    fn server(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![certificate], key).unwrap()))
    }
}

fn phase(fixture: &TracesFixture, name: &str) -> String {
    let machine = fixture.machine(name).unwrap_or_default();
    machine["status"]["currentStatus"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// Shows TRC-7.
#[tokio::test(flavor = "multi_thread")]
async fn traces_are_sent_only_to_a_collector_with_the_given_ca() {
    let (trusted, other) = (TestCa::new(), TestCa::new());
    let fixture = TracesFixture::with(Some(trusted.server())).await;
    let file: PathBuf = fixture.folder.path().join("ca.crt");
    fs::write(&file, &other.pem).unwrap();
    let mut controller = fixture.controller(&["--tracing-ca-file", file.to_str().unwrap(), "-v=2"]);
    let port = {
        let line = controller.wait_for_line(&["FLAG: --port="]);
        line.split("--port=").nth(1).unwrap().chars().filter(char::is_ascii_digit).collect::<String>()
    };

    fixture.create("m-1");
    fixture.until("the Machine is Running", |w| phase(w, "m-1") == "Running").await;
    fixture.delete("m-1").await;
    fixture.until("the Machine is deleted", |w| w.machine("m-1").is_none()).await;
    let line = controller.wait_for_line(&["failed to export traces"]);
    assert!(line.contains("invalid peer certificate") && line.contains("--tracing-ca-file"), "{line}");
    let dropped = "millwright_traces_dropped_total{reason=\"refused\"} ";
    let metrics = page(&port, "/metrics");
    let count = metrics.lines().find_map(|line| line.strip_prefix(dropped)?.parse::<f64>().ok());
    assert!(count.is_some_and(|count| count > 0.0), "{count:?}");
    assert!(fixture.collector.spans.lock().unwrap().is_empty(), "an untrusted collector must receive nothing");

    // A renewed CA is mounted over the old one.
    fs::write(&file, &trusted.pem).unwrap();
    fixture.create("m-2");
    controller.wait_for_line(&["resumed the export of traces"]);
    fixture
        .until("its creation is exported", |w| {
            w.collector.named("create machine").iter().any(|span| attribute(span, "millwright.machine") == "m-2")
        })
        .await;
    assert!(controller.terminate().success());
    fixture.tasks.shut_down(std::time::Duration::from_secs(5)).await;
}

/// Shows TRC-8.
#[rstest]
#[case("missing", None, "failed to read --tracing-ca-file")]
#[case("empty", Some(String::new()), "contains no certificate")]
#[case("key", Some(KeyPair::generate().unwrap().serialize_pem()), "contains no certificate")]
#[case("broken", Some(broken()), "--tracing-ca-file")]
fn unreadable_ca_file_is_reported_with_flag_and_path(
    #[case] name: &str,
    #[case] content: Option<String>,
    #[case] words: &str,
) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(name);
    if let Some(content) = content {
        fs::write(&path, content).unwrap();
    }
    let ca_file = format!("--tracing-ca-file={}", path.display());
    let endpoint = "--tracing-endpoint=https://collector";
    let output = run(&["run", "--provider=virtual", "--target-kubeconfig=/no/such", endpoint, &ca_file]);
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains(words) && printed.contains(&path.display().to_string()), "{printed}");
}

/// Returns PEM with content that is not a certificate.
fn broken() -> String {
    "-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n".to_owned()
}

/// Shows TRC-8.
#[test]
fn ca_file_requires_an_https_endpoint() {
    let alone = run(&["run", "--tracing-ca-file=/no/such"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone.stderr).contains("--tracing-endpoint"), "{}", text(&alone.stderr));
    let plain =
        run(&["run", "--provider=virtual", "--tracing-endpoint=http://collector:4318", "--tracing-ca-file=/no/such"]);
    assert_eq!(plain.status.code(), Some(1));
    assert!(text(&plain.stderr).contains("Use https://"), "{}", text(&plain.stderr));
}
