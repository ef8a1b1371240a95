//! Credentials and authorities that are renewed on disk, in every form in which they may lie there.

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
use runtime::client::{Connection, InCluster, RetryClass, Source};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

use super::server::{Authority, Behaviour, Server, authority, issued_by};
use super::{PATIENCE, class_of_get, config_maps, spec};

/// Where credentials may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In the kubeconfig itself, which is rewritten.
    Inline,
    /// In files that the kubeconfig names.
    Files,
    /// Where every pod has them.
    InCluster,
}

/// What is put there.
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

/// A folder as a kubelet mounts it: every file is a link into a folder that is swapped whole.
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

/// A watch that was opened before anything was renewed.
struct Watch(BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>);

impl Watch {
    async fn open(api: &Api<ConfigMap>) -> Self {
        let mut watch = Self(api.watch(&WatchParams::default(), "0").await.unwrap().boxed());
        watch.hears("0").await;
        watch
    }

    async fn hears(&mut self, version: &str) {
        let event =
            tokio::time::timeout(PATIENCE, self.0.try_next()).await.expect("the watch has fallen silent").unwrap();
        let Some(WatchEvent::Bookmark(bookmark)) = event else { panic!("the watch has ended: {event:?}") };
        assert_eq!(bookmark.metadata.resource_version, version);
    }

    /// It still hears what happens, and is the only one that was ever opened.
    async fn has_gone_on(&mut self, server: &Server) {
        server.tell_the_news();
        self.hears("1").await;
        assert_eq!(server.seen().iter().map(|seen| seen.watches).sum::<usize>(), 1, "the watch was opened again");
    }
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[case(Form::InCluster)]
#[tokio::test]
async fn a_renewed_token_is_on_the_next_request_in_every_form_and_the_watch_goes_on(#[case] form: Form) {
    let server = Server::start(Behaviour { token: Some("old".to_owned()), ..Behaviour::default() }).await;
    let papers = Papers::for_server(&server);
    let mut mount = Mount::new(form, &papers.clone().with_token("old"));
    let api = config_maps(&mount.connection(&server), &spec());
    let mut watch = Watch::open(&api).await;
    assert_eq!(class_of_get(&api).await, Ok(()));
    *server.token.lock() = Some("new".to_owned());
    mount.swap(&papers.with_token("new"));
    assert_eq!(class_of_get(&api).await, Ok(()), "no request was refused on the way");
    watch.has_gone_on(&server).await;
    assert_eq!(server.seen().len(), 2, "a token needs no connection of its own");
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[tokio::test]
async fn a_renewed_client_certificate_is_shown_with_the_next_request_and_the_watch_goes_on(#[case] form: Form) {
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
    assert_eq!(shown(&server), Some(der(&new.0)), "it rode on a connection of the old certificate");
    watch.has_gone_on(&server).await;
    // The whole folder is swapped whenever anything in it changes; the same certificate is no new one.
    mount.swap(&papers.with_identity(new));
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(server.seen().len(), 3, "a connection was opened for nothing");
}

/// Shows CLI-9.
#[rstest]
#[case(Form::Inline)]
#[case(Form::Files)]
#[case(Form::InCluster)]
#[tokio::test]
async fn an_authority_is_rotated_by_way_of_both_and_the_watch_goes_on(#[case] form: Form) {
    let server = Server::start(Behaviour::default()).await;
    let (old, new) = (&*server.authority, &authority());
    let papers = Papers::for_server(&server).with_token("t");
    let mut mount = Mount::new(form, &papers);
    let connection = mount.connection(&server);
    let api = config_maps(&connection, &spec());
    let mut watch = Watch::open(&api).await;
    assert_eq!(class_of_get(&api).await, Ok(()));

    mount.swap(&papers.clone().trusting(&[old, new]));
    assert_eq!(class_of_get(&api).await, Ok(()), "the server still shows the old one's certificate");
    server.be_certified_by(new);
    let another = config_maps(&connection, &spec().on_own_connections());
    assert_eq!(class_of_get(&another).await, Ok(()), "the server shows the new one's certificate");
    mount.swap(&papers.clone().trusting(&[new]));
    assert_eq!(class_of_get(&api).await, Ok(()));
    assert_eq!(class_of_get(&another).await, Ok(()));
    watch.has_gone_on(&server).await;

    // Trust that was withdrawn counts for the next request, not only when the server happens to hang up; nor does TLS resume what it
    // agreed on under the old one.
    mount.swap(&papers.clone().trusting(&[old]));
    assert_eq!(class_of_get(&api).await, Err(RetryClass::Unreachable));
    mount.swap(&papers.trusting(&[new]));
    assert_eq!(class_of_get(&api).await, Ok(()));
}

/// What was logged.
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

/// Puts a broken file there, asks three times, and puts it right.
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
        assert_eq!(class_of_get(&api).await, Ok(()), "what was valid is still valid");
    }
    // Refused, each request looks again. It still says so only once.
    let accepted = server.token.lock().replace("another".to_owned());
    for _ in 0..3 {
        assert_eq!(class_of_get(&api).await, Err(RetryClass::Unauthorized));
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
async fn a_broken_file_is_not_believed_and_said_once(
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
async fn a_certificate_whose_key_has_not_been_written_yet_waits_for_it() {
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
async fn a_kubeconfig_that_describes_something_else_is_not_followed_and_said_once(
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
    assert_eq!(tokens, ["Bearer hunter2"], "another server's credentials were shown to this one");
    assert_eq!((page.lines_with(KEPT), page.lines_with(said)), (1, 1));
}

/// Shows CLI-9.
#[tokio::test]
async fn a_file_rewritten_in_place_that_looks_the_same_is_found_out_by_the_first_refusal() {
    let server = Server::start(Behaviour { token: Some("old".to_owned()), ..Behaviour::default() }).await;
    let mount = Mount::new(Form::Files, &Papers::for_server(&server).with_token("old"));
    let api = config_maps(&mount.connection(&server), &spec());
    assert_eq!(class_of_get(&api).await, Ok(()));
    let stamp = std::fs::metadata(mount.at("token")).unwrap().modified().unwrap();
    std::fs::write(mount.at("token"), "new").unwrap();
    std::fs::File::options().write(true).open(mount.at("token")).unwrap().set_modified(stamp).unwrap();
    *server.token.lock() = Some("new".to_owned());
    assert_eq!(class_of_get(&api).await, Err(RetryClass::Unauthorized));
    assert_eq!(class_of_get(&api).await, Ok(()));
}
