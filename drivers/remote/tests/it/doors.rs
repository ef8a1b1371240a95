//! Authentication with real sockets and real certificates.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use driver::{Call, Driver};
use driver_remote::{Endpoint, LinkError, ListenError, Listener, RemoteDriver, TlsFiles, serve};
use driver_virtual::{Config, VirtualCloud};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use runtime::Tasks;
use tempfile::TempDir;

use crate::wire::{about, caller, now, request};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the files of a side with this name that trusts `trusted`.
    fn files(&self, folder: &Path, side: &str, name: &str, trusted: &Self) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let write = |what: &str, text: &str| {
            let path = folder.join(format!("{side}-{what}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            authority: write("authority", &trusted.0.pem()),
            certificate: write("certificate", &certificate.pem()),
            key: write("key", &key.serialize_pem()),
        }
    }
}

/// A listening cloud, stopped when it is dropped.
struct Open {
    cloud: VirtualCloud,
    endpoint: Endpoint,
    tasks: Tasks,
}

impl Open {
    async fn at(endpoint: &str, files: Option<&TlsFiles>) -> Self {
        let listener = Listener::bind(&endpoint.parse().unwrap(), files).await.unwrap();
        let (tasks, endpoint) = (Tasks::new(), listener.endpoint().clone());
        let cloud = VirtualCloud::new(Config::default(), now(), 1);
        tasks.spawn("callers", serve(Arc::new(cloud.clone()), about(), listener, tasks.clone()));
        Self { cloud, endpoint, tasks }
    }

    fn caller(&self, files: Option<&TlsFiles>) -> RemoteDriver {
        RemoteDriver::new(&self.endpoint, files, caller(&self.tasks)).unwrap()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

fn socket(folder: &TempDir) -> String {
    format!("unix:{}", folder.path().join("driver.sock").display())
}

/// Shows REM-6.
#[tokio::test]
async fn unix_socket_is_private_and_removed_on_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let cloud = Open::at(&socket(&folder), None).await;
    let entries: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries, [folder.path().join("driver.sock")]);
    assert_eq!(std::fs::metadata(&entries[0]).unwrap().permissions().mode() & 0o777, 0o600);
    cloud.caller(None).create(&Call::default(), &request("m")).await.unwrap();
    assert_eq!(cloud.cloud.vms_of("m").len(), 1);
    cloud.tasks.shut_down(Duration::from_secs(5)).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn used_socket_is_kept_and_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let first = Open::at(&socket(&folder), None).await;
    let refused = Listener::bind(&first.endpoint, None).await.unwrap_err();
    assert!(matches!(refused, ListenError::Taken { .. }), "{refused:?}");
    first.caller(None).reach().await.unwrap();

    let left = folder.path().join("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap()); // the file stays, as after a SIGKILL
    let second = Open::at(&format!("unix:{}", left.display()), None).await;
    second.caller(None).reach().await.unwrap();
}

#[tokio::test]
async fn missing_socket_is_reported_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let (endpoint, tasks) = (socket(&folder), Tasks::new());
    let driver = RemoteDriver::new(&endpoint.parse().unwrap(), None, caller(&tasks)).unwrap();
    let said = driver.reach().await.unwrap_err().sentence();
    assert!(said.contains(&endpoint) && said.contains("start it"), "{said}");
}

/// Shows REM-6.
#[tokio::test]
async fn tls_accepts_only_certificates_of_the_ca() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ours.files(folder.path(), "server", "127.0.0.1", &ours);
    let cloud = Open::at("tcp+mtls://127.0.0.1:0", Some(&server)).await;

    let friend = cloud.caller(Some(&ours.files(folder.path(), "friend", "controller", &ours)));
    friend.create(&Call::default(), &request("m")).await.unwrap();

    let stranger = cloud.caller(Some(&theirs.files(folder.path(), "stranger", "controller", &ours)));
    let said = stranger.reach().await.unwrap_err().sentence();
    assert!(said.contains("rejected the client certificate"), "{said}");
    assert!(stranger.create(&Call::default(), &request("n")).await.is_err());

    let wary = cloud.caller(Some(&ours.files(folder.path(), "wary", "controller", &theirs)));
    let said = wary.reach().await.unwrap_err().sentence();
    assert!(said.contains("not issued by the trusted CA"), "{said}");
    assert_eq!(cloud.cloud.vms().len(), 1);
}

#[tokio::test]
async fn certificate_for_another_name_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let server = ours.files(folder.path(), "server", "elsewhere.example", &ours);
    let cloud = Open::at("tcp+mtls://127.0.0.1:0", Some(&server)).await;
    let client = cloud.caller(Some(&ours.files(folder.path(), "client", "controller", &ours)));
    let said = client.reach().await.unwrap_err().sentence();
    assert!(said.contains("another name"), "{said}");
}

/// Shows REM-6.
#[tokio::test]
async fn rotated_certificate_needs_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = old.files(folder.path(), "server", "127.0.0.1", &old);
    let cloud = Open::at("tcp+mtls://127.0.0.1:0", Some(&server)).await;
    new.files(folder.path(), "server", "127.0.0.1", &new);
    let client = cloud.caller(Some(&new.files(folder.path(), "client", "controller", &new)));
    client.reach().await.unwrap();
}

#[tokio::test]
async fn missing_or_invalid_key_is_named_and_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new("ours");
    let files = ours.files(folder.path(), "server", "127.0.0.1", &ours);
    std::fs::write(&files.key, "hunter2").unwrap();
    let error = Listener::bind(&"tcp+mtls://127.0.0.1:0".parse().unwrap(), Some(&files)).await.unwrap_err();
    let said = format!("{error} {error:?}");
    assert!(said.contains("server-key.pem") && !said.contains("hunter2"), "{said}");

    std::fs::remove_file(&files.key).unwrap();
    let tasks = Tasks::new();
    let driver = RemoteDriver::new(&"tcp+mtls://127.0.0.1:1".parse().unwrap(), Some(&files), caller(&tasks)).unwrap();
    let obstacle = driver.reach().await.unwrap_err();
    assert!(matches!(*obstacle, LinkError::Files { .. }), "{obstacle:?}");
    assert!(obstacle.sentence().contains("server-key.pem"), "{}", obstacle.sentence());
}
