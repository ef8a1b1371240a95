//! Tests of the rotation of credentials and CA certificates, in all supported forms.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use parking_lot::Mutex;
use rstest::rstest;
use runtime::client::{Connection, ErrorClass, InCluster, Source};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use super::server::{Authority, Behaviour, Server, authority, issued_by};
use super::{TIMEOUT, class_of_get, config_maps, spec};

/// Form of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Inline in the kubeconfig.
    Inline,
    /// In files that the kubeconfig refers to.
    Files,
    /// Mounted service account.
    InCluster,
}

/// Renewed credentials.
#[derive(Clone, Debug, Default)]
struct Papers {
    server: String,
    authority: String,
    token: Option<String>,
    identity: Option<(String, String)>,
}

impl Papers {
    fn for_server(server: &Server) -> Self {
        let address = format!("https://localhost:{}", server.address.port());
        Self { server: address, authority: server.authority.pem(), ..Self::default() }
    }

    fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    fn with_identity(self, identity: (String, String)) -> Self {
        Self { identity: Some(identity), ..self }
    }

    fn trusting(self, authorities: &[&Authority]) -> Self {
        Self { authority: authorities.iter().map(|authority| authority.pem()).collect(), ..self }
    }

    fn files(&self, form: Form) -> Vec<(&'static str, String)> {
        let data = |text: &str| STANDARD.encode(text);
        let mut files = vec![("namespace", "ns".to_owned())];
        let (mut cluster, mut user) = (format!("server: '{}'", self.server), Vec::new());
        match form {
            Form::Inline => {
                cluster = format!("{cluster}, certificate-authority-data: {}", data(&self.authority));
                user.extend(self.token.as_ref().map(|token| format!("token: {token}")));
                if let Some((certificate, key)) = &self.identity {
                    user.push(format!("client-certificate-data: {}", data(certificate)));
                    user.push(format!("client-key-data: {}", data(key)));
                }
            }
            Form::Files | Form::InCluster => {
                cluster += ", certificate-authority: ca.crt";
                files.push(("ca.crt", self.authority.clone()));
                if let Some(token) = &self.token {
                    user.push("tokenFile: token".to_owned());
                    files.push(("token", token.clone()));
                }
                if let Some((certificate, key)) = &self.identity {
                    user.push("client-certificate: tls.crt, client-key: tls.key".to_owned());
                    files.extend([("tls.crt", certificate.clone()), ("tls.key", key.clone())]);
                }
            }
        }
        let kubeconfig = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u, namespace: ns}}}}]\n\
             clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{}}}}}]\n",
            user.join(", ")
        );
        files.push(("kubeconfig", kubeconfig));
        files
    }
}

/// A volume as mounted by a kubelet: files are symlinks into a directory that is replaced atomically.
struct Mount {
    dir: TempDir,
    form: Form,
    version: u64,
}

impl Mount {
    fn new(form: Form, papers: &Papers) -> Self {
        let mut mount = Self { dir: tempfile::tempdir().unwrap(), form, version: 0 };
        mount.swap(papers);
        mount
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn swap(&mut self, papers: &Papers) {
        self.swap_files(&papers.files(self.form));
    }

    fn swap_files(&mut self, files: &[(&'static str, String)]) {
        self.version += 1;
        let version = self.at(&format!("..{}", self.version));
        std::fs::create_dir(&version).unwrap();
        for (name, content) in files {
            std::fs::write(version.join(name), content).unwrap();
            if !self.at(name).is_symlink() {
                symlink(Path::new("..data").join(name), self.at(name)).unwrap();
            }
        }
        symlink(&version, self.at("..next")).unwrap();
        std::fs::rename(self.at("..next"), self.at("..data")).unwrap();
    }

    fn connection(&self, server: &Server) -> Connection {
        let source = match self.form {
            Form::Inline | Form::Files => {
                Source::Kubeconfig { path: self.at("kubeconfig"), flag: "--target-kubeconfig".to_owned() }
            }
            Form::InCluster => Source::InCluster(InCluster {
                host: Some("localhost".to_owned()),
                port: Some(server.address.port().to_string()),
                mount: self.dir.path().to_owned(),
            }),
        };
        Connection::load(&source).unwrap()
    }
}

/// A watch that was opened before the rotation.
struct Watch(BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>);

impl Watch {
    async fn open(api: &Api<ConfigMap>) -> Self {
        let mut watch = Self(api.watch(&WatchParams::default(), "0").await.unwrap().boxed());
        watch.hears("0").await;
        watch
    }

    async fn hears(&mut self, version: &str) {
        let event = tokio::time::timeout(TIMEOUT, self.0.try_next()).await.expect("the watch timed out").unwrap();
        let Some(WatchEvent::Bookmark(bookmark)) = event else { panic!("the watch has ended: {event:?}") };
        assert_eq!(bookmark.metadata.resource_version, version);
    }

    /// Checks that the watch receives events and was not reopened.
    async fn has_gone_on(&mut self, server: &Server) {
        server.tell_the_news();
        self.hears("1").await;
        assert_eq!(server.seen().iter().map(|seen| seen.watches).sum::<usize>(), 1, "the watch was reopened");
    }
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[case(Form::InCluster)]
#[tokio::test]
async fn renewed_token_is_used_and_the_watch_continues(#[case] form: Form) {
    let server = Server::start(Behaviour { token: Some("old".to_owned()), ..Behaviour::default() }).await;
    let papers = Papers::for_server(&server);
    let mut mount = Mount::new(form, &papers.clone().with_token("old"));
    let api = config_maps(&mount.connection(&server), &spec());
    let mut watch = Watch::open(&api).await;
    assert_eq!(class_of_get(&api).await, Ok(()));
    *server.token.lock() = Some("new".to_owned());
    mount.swap(&papers.with_token("new"));
    assert_eq!(class_of_get(&api).await, Ok(()), "no request was rejected");
    watch.has_gone_on(&server).await;
    assert_eq!(server.seen().len(), 2, "a new token needs no new connection");
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[tokio::test]
async fn renewed_certificate_is_used_and_the_watch_continues(#[case] form: Form) {
    let server = Server::start(Behaviour { wants_certificate: true, ..Behaviour::default() }).await;
    let (old, new) = (issued_by(&server.authority, "old"), issued_by(&server.authority, "new"));
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
    let shown = |server: &Server| server.seen().last().unwrap().certificate.clone();
    let papers = Papers::for_server(&server);
    let mut mount = Mount::new(form, &papers.clone().with_identity(old.clone()));
    let api = config_maps(&mount.connection(&server), &spec());
    let mut watch = Watch::open(&api).await;
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(shown(&server), Some(der(&old.0)));
    mount.swap(&papers.clone().with_identity(new.clone()));
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(shown(&server), Some(der(&new.0)), "it used a connection with the old certificate");
    watch.has_gone_on(&server).await;
    // The whole directory is replaced on each change; an unchanged certificate needs no new connection.
    mount.swap(&papers.with_identity(new));
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(server.seen().len(), 3, "an unnecessary connection was opened");
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[case(Form::InCluster)]
#[tokio::test]
async fn ca_is_rotated_by_a_bundle_and_the_watch_continues(#[case] form: Form) {
    let server = Server::start(Behaviour::default()).await;
    let (old, new) = (&*server.authority, &authority());
    let papers = Papers::for_server(&server).with_token("t");
    let mut mount = Mount::new(form, &papers);
    let connection = mount.connection(&server);
    let api = config_maps(&connection, &spec());
    let mut watch = Watch::open(&api).await;
    assert_eq!(class_of_get(&api).await, Ok(()));

    mount.swap(&papers.clone().trusting(&[old, new]));
    assert_eq!(class_of_get(&api).await, Ok(()), "the server has a certificate of the old CA");
    server.be_certified_by(new);
    let another = config_maps(&connection, &spec().on_own_connections());
    assert_eq!(class_of_get(&another).await, Ok(()), "the server has a certificate of the new CA");
    mount.swap(&papers.clone().trusting(&[new]));
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(class_of_get(&another).await, Ok(()));
    watch.has_gone_on(&server).await;

    // A removed CA is not trusted for the next request, also on open connections and for resumed TLS sessions.
    mount.swap(&papers.clone().trusting(&[old]));
    assert_eq!(class_of_get(&api).await, Err(ErrorClass::Unreachable));
    mount.swap(&papers.trusting(&[new]));
    assert_eq!(class_of_get(&api).await, Ok(()));
}

/// Collects log lines.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn lines_with(&self, words: &str) -> usize {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        assert!(!text.contains("hunter2"), "a secret was logged: {text}");
        text.lines().filter(|line| line.contains(words)).count()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const KEPT: &str = "The previous credentials stay in use.";

/// Writes a broken file, sends three requests, and fixes the file.
async fn breaking(form: Form, papers: Papers, server: &Server, broken: impl Fn(&str, String) -> Option<String>) {
    let mut mount = Mount::new(form, &papers);
    let api = config_maps(&mount.connection(server), &spec());
    let page = Page::default();
    let _listening = page.listen();
    assert_eq!(class_of_get(&api).await, Ok(()));
    let files = papers.files(form).into_iter();
    let files: Vec<_> = files.filter_map(|(name, content)| Some((name, broken(name, content)?))).collect();
    mount.swap_files(&files);
    for _ in 0..3 {
        assert_eq!(class_of_get(&api).await, Ok(()), "the previous credentials are still used");
    }
    // After a 401, each request reads the file again. The error is logged once.
    let accepted = server.token.lock().replace("another".to_owned());
    for _ in 0..3 {
        assert_eq!(class_of_get(&api).await, Err(ErrorClass::Unauthorized));
    }
    *server.token.lock() = accepted;
    assert_eq!(page.lines_with(KEPT), 1);
    mount.swap(&papers);
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!((page.lines_with(KEPT), page.lines_with("reloaded credentials")), (1, 1));
}

/// Shows CLI-12.
#[rstest]
#[case::half_a_kubeconfig(Form::Inline, "kubeconfig", Some("server:"))]
#[case::a_kubeconfig_without_its_users(Form::Inline, "kubeconfig", Some("users:"))]
#[case::an_empty_kubeconfig(Form::Inline, "kubeconfig", Some(""))]
#[case::no_kubeconfig(Form::Inline, "kubeconfig", None)]
#[case::an_empty_token(Form::Files, "token", Some(""))]
#[case::no_token(Form::InCluster, "token", None)]
#[case::half_an_authority(Form::Files, "ca.crt", Some("-----END"))]
#[case::an_empty_authority(Form::InCluster, "ca.crt", Some(""))]
#[tokio::test]
async fn broken_file_is_ignored_and_logged_once(
    #[case] form: Form,
    #[case] which: &'static str,
    #[case] ends_before: Option<&str>,
) {
    let server = Server::start(Behaviour { token: Some("hunter2".to_owned()), ..Behaviour::default() }).await;
    let papers = Papers::for_server(&server).with_token("hunter2");
    breaking(form, papers, &server, |name, content| match (name == which, ends_before) {
        (true, None) => None,
        (true, Some(mark)) => Some(content[..content.find(mark).unwrap()].to_owned()),
        (false, _) => Some(content),
    })
    .await;
}

/// Shows CLI-12.
#[tokio::test]
async fn new_certificate_is_used_when_its_key_is_written() {
    let server =
        Server::start(Behaviour { wants_certificate: true, token: Some("t".to_owned()), ..Behaviour::default() }).await;
    let papers = Papers::for_server(&server).with_token("t").with_identity(issued_by(&server.authority, "old"));
    let (next, _) = issued_by(&server.authority, "new");
    breaking(Form::Files, papers, &server, |name, content| {
        Some(if name == "tls.crt" { next.clone() } else { content })
    })
    .await;
}

/// Shows CLI-12.
#[rstest]
#[case("server: 'https://", "server: 'https://moved-", "has another server than at the start of this process")]
#[case("server:", "tls-server-name: other, server:", "has another tls-server-name than")]
#[case(
    "certificate-authority-data:",
    "insecure-skip-tls-verify: true, x:",
    "has another insecure-skip-tls-verify than"
)]
#[case("token: hunter2", "", "has no credentials any more")]
#[tokio::test]
async fn kubeconfig_of_another_cluster_is_ignored_and_logged_once(
    #[case] replace: &str,
    #[case] by: &str,
    #[case] said: &str,
) {
    let server = Server::start(Behaviour::default()).await;
    let papers = Papers::for_server(&server);
    let mut mount = Mount::new(Form::Inline, &papers.clone().with_token("hunter2"));
    let api = config_maps(&mount.connection(&server), &spec());
    let page = Page::default();
    let _listening = page.listen();
    let mut files = papers.with_token("hunter2").files(Form::Inline);
    let (_, kubeconfig) = files.iter_mut().find(|(name, _)| *name == "kubeconfig").unwrap();
    assert!(kubeconfig.contains(replace), "{kubeconfig}");
    *kubeconfig = kubeconfig.replace(replace, by).replace("hunter2", "for-somebody-else");
    mount.swap_files(&files);
    for _ in 0..3 {
        assert_eq!(class_of_get(&api).await, Ok(()));
    }
    let tokens: Vec<_> = server.seen().iter().flat_map(|seen| seen.tokens.clone()).collect();
    assert_eq!(tokens, ["Bearer hunter2"], "credentials of another server were sent to this one");
    assert_eq!((page.lines_with(KEPT), page.lines_with(said)), (1, 1));
}

/// Shows CLI-9.
#[tokio::test]
async fn file_with_equal_metadata_is_reloaded_after_a_401() {
    let server = Server::start(Behaviour { token: Some("old".to_owned()), ..Behaviour::default() }).await;
    let mount = Mount::new(Form::Files, &Papers::for_server(&server).with_token("old"));
    let api = config_maps(&mount.connection(&server), &spec());
    assert_eq!(class_of_get(&api).await, Ok(()));
    let stamp = std::fs::metadata(mount.at("token")).unwrap().modified().unwrap();
    std::fs::write(mount.at("token"), "new").unwrap();
    std::fs::File::options().write(true).open(mount.at("token")).unwrap().set_modified(stamp).unwrap();
    *server.token.lock() = Some("new".to_owned());
    assert_eq!(class_of_get(&api).await, Err(ErrorClass::Unauthorized));
    assert_eq!(class_of_get(&api).await, Ok(()));
}
