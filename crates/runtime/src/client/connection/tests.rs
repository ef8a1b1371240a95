//! Tests of connection settings and of the errors for invalid ones.

use super::*;
use crate::client::InCluster;
use rstest::rstest;
use std::path::Path;

const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: seed, user: mcm, namespace: shoot--a--b}}]
clusters: [{name: seed, cluster: {server: 'https://kube-apiserver', insecure-skip-tls-verify: true}}]
users: [{name: mcm, user: {token: hunter2}}]
";

fn load(dir: &Path, text: &str) -> Result<Connection, ConfigError> {
    let path = dir.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    Connection::load(&Source::Kubeconfig { path, flag: "--target-kubeconfig".to_owned() })
}

/// Returns the error for a broken kubeconfig, with its directory replaced by `DIR`.
fn sentence(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let error = load(dir.path(), text).expect_err("it was accepted");
    let sentence = error.sentence().replace(dir.path().to_str().unwrap(), "DIR");
    assert!(
        !sentence.contains("hunter2") && !format!("{error:?}").contains("hunter2"),
        "a secret was shown: {error:?}"
    );
    let rest = sentence.strip_prefix("the kubeconfig DIR/kubeconfig (--target-kubeconfig) ");
    rest.unwrap_or_else(|| panic!("it does not say which file and flag: {sentence}")).to_owned()
}

/// Shows CLI-10.
#[test]
fn a_good_one_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let connection = load(dir.path(), GOOD).unwrap();
    assert_eq!((connection.server(), connection.namespace()), ("https://kube-apiserver", "shoot--a--b"));
    assert_eq!(format!("{connection:?}").matches("hunter2").count(), 0);
}

/// Shows CLI-10.
#[test]
fn a_missing_file_is_named() {
    let source = Source::Kubeconfig { path: "/does/not/exist".into(), flag: "--control-kubeconfig".to_owned() };
    assert_eq!(
        Connection::load(&source).unwrap_err().sentence(),
        "the kubeconfig /does/not/exist (--control-kubeconfig) cannot be read (No such file or directory (os error 2)); \
         check the path and its permissions"
    );
}

/// Shows CLI-10.
#[rstest]
#[case("not yaml", "current-context: main", "current-context: [hunter2", "is not a valid kubeconfig (line ")]
#[case("another document", "current-context: main", "contexts: hunter2", "is not a valid kubeconfig")]
#[case("no context", "current-context: main", "", "has no current-context; set it to one of its contexts")]
#[case("empty context", "current-context: main", "current-context: ''", "has no current-context; set it")]
#[case(
    "unknown context",
    "current-context: main",
    "current-context: other",
    "has no context \"other\", which is its current-context; add it or set another one"
)]
#[case(
    "unknown cluster",
    "cluster: seed,",
    "cluster: other,",
    "has no cluster \"other\", which its context \"main\" references; add it under clusters"
)]
#[case(
    "unknown user",
    "user: mcm,",
    "user: other,",
    "has no user \"other\", which its context \"main\" references; add it under users"
)]
#[case(
    "no server",
    "server: 'https://kube-apiserver', ",
    "",
    "has no server; set server of its cluster to a URL like https://host:443"
)]
#[case(
    "odd server",
    "https://kube-apiserver",
    "ftp://x",
    "has an invalid server \"ftp://x\"; use a URL like https://host:443"
)]
#[case(
    "proxy",
    "insecure-skip-tls-verify: true",
    "proxy-url: 'http://p'",
    "has a proxy-url, which is not supported; remove it"
)]
#[case(
    "missing CA",
    "insecure-skip-tls-verify: true",
    "certificate-authority: ca.crt",
    "needs the file DIR/ca.crt, which cannot be read (No such file or directory (os error 2)); check that it is mounted and readable"
)]
#[case(
    "CA not base64",
    "insecure-skip-tls-verify: true",
    "certificate-authority-data: '***'",
    "has a certificate-authority-data that is not base64; encode it, or reference a file instead"
)]
#[case(
    "CA not PEM",
    "insecure-skip-tls-verify: true",
    "certificate-authority-data: aHVudGVyMg==",
    "has an invalid certificate-authority-data: it contains no PEM certificate; replace it with the CA certificate of the server in PEM"
)]
#[case(
    "missing certificate",
    "token: hunter2",
    "client-certificate: c.crt, client-key: c.key",
    "needs the file DIR/c.crt, which cannot be read (No such file or directory (os error 2)); check that it is mounted and readable"
)]
#[case(
    "half an identity",
    "token: hunter2",
    "client-certificate-data: YQ==",
    "has an incomplete client certificate; add client-key, or remove the other field"
)]
#[case(
    "identity not PEM",
    "token: hunter2",
    "client-certificate-data: YQ==, client-key-data: aHVudGVyMg==",
    "has invalid client-certificate-data and client-key-data: it contains no PEM certificate; replace both"
)]
#[case(
    "missing token file",
    "token: hunter2",
    "tokenFile: token",
    "needs the file DIR/token, which cannot be read (No such file or directory (os error 2)); check that it is mounted and readable"
)]
#[case(
    "missing plugin",
    "token: hunter2",
    "exec: {apiVersion: client.authentication.k8s.io/v1, command: /does/not/exist, interactiveMode: Never}",
    "has credentials that cannot be used (the exec plugin failed to start ("
)]
#[case(
    "failing plugin",
    "token: hunter2",
    "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'echo hunter2; exit 3'], interactiveMode: Never}",
    "has credentials that cannot be used (the exec plugin failed (exit status: 3)); check its user"
)]
#[case(
    "chatty plugin",
    "token: hunter2",
    "exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, args: ['[hunter2'], interactiveMode: Never}",
    "has credentials that cannot be used (the exec plugin printed no valid credential); check its user"
)]
fn a_wrong_one_gets_its_own_sentence(
    #[case] what: &str,
    #[case] replace: &str,
    #[case] by: &str,
    #[case] expected: &str,
) {
    assert!(GOOD.contains(replace), "{what}");
    let sentence = sentence(&GOOD.replace(replace, by));
    assert!(sentence.starts_with(expected), "{what}: {sentence}");
}

#[rstest]
#[case("kube-apiserver:6443", "https://kube-apiserver:6443")]
#[case("https://[::1]:6443/", "https://[::1]:6443")]
#[case("https://rancher.example/k8s/clusters/c1", "https://rancher.example/k8s/clusters/c1")]
#[case("http://127.0.0.1:8001", "http://127.0.0.1:8001")]
fn addresses_are_read_as_client_go_reads_them(#[case] server: &str, #[case] expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    let connection = load(dir.path(), &GOOD.replace("https://kube-apiserver", server)).unwrap();
    assert_eq!(connection.server(), expected);
}

#[test]
fn token_file_overrides_token_and_path_is_relative() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "renewed\n").unwrap();
    let connection = load(dir.path(), &GOOD.replace("token: hunter2", "token: hunter2, tokenFile: token")).unwrap();
    assert_eq!(connection.token_file(), Some(dir.path().join("token")));
}

#[test]
fn an_empty_token_file_is_an_error_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "").unwrap();
    let error = load(dir.path(), &GOOD.replace("token: hunter2", "tokenFile: token")).unwrap_err();
    assert!(error.sentence().ends_with("token, which cannot be used: it is empty; replace it"), "{}", error.sentence());
}

/// Shows CLI-10.
#[test]
fn outside_a_pod_the_missing_variable_is_named() {
    let source = Source::InCluster(InCluster::new(None, Some("443".to_owned())));
    assert_eq!(
        Connection::load(&source).unwrap_err().sentence(),
        "the service account of this pod is not available: KUBERNETES_SERVICE_HOST is not set; run in a pod, or specify a kubeconfig"
    );
}

/// Shows CLI-10.
#[test]
fn in_a_pod_the_mount_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let pod =
        || InCluster { host: Some("fd00::1".to_owned()), port: Some("443".to_owned()), mount: dir.path().to_owned() };
    std::fs::write(dir.path().join("namespace"), "shoot--a--b\n").unwrap();
    std::fs::write(dir.path().join("token"), "secret").unwrap();
    let broken = Connection::load(&Source::InCluster(pod())).unwrap_err().sentence();
    assert!(broken.contains("ca.crt, which cannot be read"), "{broken}");
    std::fs::write(dir.path().join("ca.crt"), rcgen::generate_simple_self_signed(["x".to_owned()]).unwrap().cert.pem())
        .unwrap();
    let connection = Connection::load(&Source::InCluster(pod())).unwrap();
    assert_eq!((connection.server(), connection.namespace()), ("https://[fd00::1]:443", "shoot--a--b"));
}
