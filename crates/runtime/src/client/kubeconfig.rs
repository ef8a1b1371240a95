//! Reads the settings of a connection from a kubeconfig or a pod's service account.
//!
//! kube's reader finds the files; context, cluster and user are selected here, for three reasons. An unknown user is an
//! error, not an anonymous request that fails with 403 later. The environment is not read: `HTTPS_PROXY` may be
//! intended for the cloud and not for the cluster. And each error has its own message.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret, SecretString};

use super::config_error::ConfigProblem;
use super::files::{FileError, Files};
use super::tls::{Identity, Pem, Trust};

/// The source of the configuration of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// The flag that specified it, for errors: `--target-kubeconfig`.
        flag: String,
    },
    /// The service account of the pod.
    InCluster(InCluster),
    /// Text from a Secret: it may reference no file and no program of this host.
    Text {
        /// The kubeconfig.
        text: KubeconfigText,
        /// Its origin, for errors.
        place: String,
    },
}

/// The text of a kubeconfig. It is never printed, because it contains tokens and keys.
#[derive(Clone, PartialEq, Eq)]
pub struct KubeconfigText(String);

impl KubeconfigText {
    /// Wraps the text, so that it is not printed.
    pub fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for KubeconfigText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KubeconfigText(..)")
    }
}

/// Access to the API server from inside a pod. The binary reads the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InCluster {
    /// The value of `KUBERNETES_SERVICE_HOST`.
    pub host: Option<String>,
    /// The value of `KUBERNETES_SERVICE_PORT`.
    pub port: Option<String>,
    /// Where token, CA and namespace are mounted.
    pub mount: PathBuf,
}

impl InCluster {
    /// Returns the settings with the default mount path.
    pub fn new(host: Option<String>, port: Option<String>) -> Self {
        Self { host, port, mount: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount") }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig { path, flag } => write!(f, "the kubeconfig {} ({flag})", path.display()),
            Self::InCluster(_) => f.write_str("the service account of this pod"),
            Self::Text { place, .. } => write!(f, "the kubeconfig in {place}"),
        }
    }
}

/// Settings of a connection, with the content of every referenced file.
pub(super) struct Settings {
    pub(super) address: Address,
    pub(super) namespace: String,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) token: Option<Token>,
    /// The other fields of the user: password, exec plugin, impersonation.
    pub(super) user: Box<AuthInfo>,
    /// The field of a credential that is not sent, because the server does not use TLS.
    pub(super) withheld: Option<&'static str>,
}

/// The server. If it changes, the file is not a renewal but describes another connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) server: http::Uri,
    pub(super) server_name: Option<String>,
}

/// A bearer token as a header value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) header: HeaderValue,
    /// Its file, unless it is in the kubeconfig itself.
    pub(super) file: Option<PathBuf>,
}

impl Settings {
    /// Reads the source and everything that it references. `files` contains what was read, also after an error.
    pub(super) fn read(source: &Source, files: &mut Files) -> Result<Self, ConfigProblem> {
        match source {
            Source::Kubeconfig { path, .. } => Self::from_file(path, files),
            Source::InCluster(pod) => Self::from_pod(pod, files),
            Source::Text { text, .. } => {
                let config = Kubeconfig::from_yaml(&text.0).map_err(unread)?;
                stays_within(&config)?;
                Self::of(config, files)
            }
        }
    }

    fn from_file(path: &Path, files: &mut Files) -> Result<Self, ConfigProblem> {
        files.note(path);
        if is_broken_utf16(&std::fs::read(path).map_err(ConfigProblem::Read)?) {
            return Err(ConfigProblem::Parse { place: None });
        }
        Self::of(Kubeconfig::read_from(path).map_err(unread)?, files)
    }

    fn of(config: Kubeconfig, files: &mut Files) -> Result<Self, ConfigProblem> {
        let context_name =
            config.current_context.filter(|name| !name.is_empty()).ok_or(ConfigProblem::NoCurrentContext)?;
        let context = config.contexts.into_iter().find(|named| named.name == context_name);
        let Some(context) = context.and_then(|named| named.context) else {
            return Err(ConfigProblem::UnknownContext { name: context_name });
        };
        let cluster = config.clusters.into_iter().find(|named| named.name == context.cluster);
        let Some(cluster) = cluster.and_then(|named| named.cluster) else {
            return Err(ConfigProblem::UnknownCluster { name: context.cluster, context: context_name });
        };
        let user = match context.user.filter(|name| !name.is_empty()) {
            None => AuthInfo::default(),
            Some(name) => match config.auth_infos.into_iter().find(|named| named.name == name) {
                Some(named) => named.auth_info.unwrap_or_default(),
                None => return Err(ConfigProblem::UnknownUser { name, context: context_name }),
            },
        };
        if cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty()) {
            return Err(ConfigProblem::Proxy);
        }
        let trust = trust(&cluster, files)?;
        let identity = identity(&user, files)?;
        let tls = identity.is_some() || trust != Trust::System;
        let server = server(cluster.server.as_deref().unwrap_or_default(), tls)?;
        // A credential must not be sent without TLS. client-go does not do that either.
        let (user, identity, withheld) = match server.scheme_str() {
            Some("https") => (user, identity, None),
            _ => (without_credentials(&user), None, credential(&user)),
        };
        Ok(Self {
            address: Address { server, server_name: cluster.tls_server_name.filter(|name| !name.is_empty()) },
            namespace: context.namespace.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
            trust,
            identity,
            token: token(&user, files)?,
            user: Box::new(user),
            withheld,
        })
    }

    fn from_pod(pod: &InCluster, files: &mut Files) -> Result<Self, ConfigProblem> {
        let variable = |value: &Option<String>, variable| {
            value.clone().filter(|value| !value.is_empty()).ok_or(ConfigProblem::NotInCluster { variable })
        };
        let host = variable(&pod.host, "KUBERNETES_SERVICE_HOST")?;
        let port = variable(&pod.port, "KUBERNETES_SERVICE_PORT")?;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
        let namespace = files.read(&pod.mount.join("namespace")).map_err(ConfigProblem::File)?;
        Ok(Self {
            address: Address { server: server(&format!("https://{host}:{port}"), true)?, server_name: None },
            namespace: String::from_utf8_lossy(&namespace).trim().to_owned(),
            trust: Trust::Bundle(pem_of(pod.mount.join("ca.crt"), files)?),
            identity: None,
            token: Some(token_of(pod.mount.join("token"), files)?),
            user: Box::default(),
            withheld: None,
        })
    }
}

fn unread(error: KubeconfigError) -> ConfigProblem {
    match error {
        KubeconfigError::ReadConfig(why, _) => ConfigProblem::Read(why),
        // Its text may quote the file; only the position is kept.
        KubeconfigError::Parse(why) => {
            ConfigProblem::Parse { place: why.location().map(|place| (place.line(), place.column())) }
        }
        _ => ConfigProblem::Parse { place: None },
    }
}

/// A user who can write a Secret must not be able to read files of this host or run programs on it.
fn stays_within(config: &Kubeconfig) -> Result<(), ConfigProblem> {
    let mut clusters = config.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let authority = clusters.find_map(|cluster| filled(cluster.certificate_authority.as_deref()));
    let users = || config.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let file = |field: fn(&AuthInfo) -> Option<&str>| users().any(|user| filled(field(user)).is_some());
    let fields = [
        ("certificate-authority", authority.is_some()),
        ("client-certificate", file(|user| user.client_certificate.as_deref())),
        ("client-key", file(|user| user.client_key.as_deref())),
        ("tokenFile", file(|user| user.token_file.as_deref())),
        ("exec", users().any(|user| user.exec.is_some())),
        ("auth-provider", users().any(|user| user.auth_provider.is_some())),
    ];
    match fields.into_iter().find(|(_, is_there)| *is_there) {
        Some((field, _)) => Err(ConfigProblem::Reaches { field }),
        None => Ok(()),
    }
}

/// Returns whether the text has a UTF-16 mark and an incomplete last character: kube would panic on it.
fn is_broken_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) && !bytes.len().is_multiple_of(2)
}

/// If the address has no scheme, https is used if there is any TLS setting, as in client-go.
fn server(text: &str, tls: bool) -> Result<http::Uri, ConfigProblem> {
    let scheme = if tls { "https" } else { "http" };
    let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    // A missing quote turns half of the file, including secrets, into the address. An address is one word.
    let word = text.split_whitespace().next().unwrap_or_default();
    let wrong = || ConfigProblem::Server { server: word.to_owned() };
    let uri: http::Uri = full.parse().map_err(|_| wrong())?;
    let known = matches!(uri.scheme_str(), Some("https" | "http"));
    let named = uri.host().is_some_and(|host| !host.is_empty());
    if known && named { Ok(uri) } else { Err(wrong()) }
}

fn trust(cluster: &Cluster, files: &mut Files) -> Result<Trust, ConfigProblem> {
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Ok(Trust::Anyone);
    }
    let (data, file) = (&cluster.certificate_authority_data, &cluster.certificate_authority);
    let pem = pem("certificate-authority-data", data.as_deref(), file.as_deref(), files)?;
    Ok(pem.map_or(Trust::System, Trust::Bundle))
}

fn identity(user: &AuthInfo, files: &mut Files) -> Result<Option<Identity>, ConfigProblem> {
    let (data, file) = (user.client_certificate_data.as_deref(), user.client_certificate.as_deref());
    let certificate = pem("client-certificate-data", data, file, files)?;
    let (data, file) = (user.client_key_data.as_ref().map(ExposeSecret::expose_secret), user.client_key.as_deref());
    let key = pem("client-key-data", data, file, files)?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity { certificate, key })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(ConfigProblem::IncompleteIdentity { missing: "client-certificate" }),
        (Some(_), None) => Err(ConfigProblem::IncompleteIdentity { missing: "client-key" }),
    }
}

/// Returns the user without its credentials. Impersonation headers are not secret.
fn without_credentials(user: &AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate.clone(),
        impersonate_uid: user.impersonate_uid.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        impersonate_user_extra: user.impersonate_user_extra.clone(),
        ..AuthInfo::default()
    }
}

/// Returns the name of a field of the user that contains or references a credential.
fn credential(user: &AuthInfo) -> Option<&'static str> {
    let secret = |field: &Option<SecretString>| filled(field.as_ref().map(ExposeSecret::expose_secret)).is_some();
    let text = |field: &Option<String>| filled(field.as_deref()).is_some();
    let fields = [
        ("token", secret(&user.token)),
        ("tokenFile", text(&user.token_file)),
        ("password", secret(&user.password)),
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("client-key-data", secret(&user.client_key_data)),
        ("client-key", text(&user.client_key)),
    ];
    fields.into_iter().find(|(_, is_there)| *is_there).map(|(field, _)| field)
}

/// A token file takes precedence over a token, because it is renewed. A password or a provider takes precedence over a
/// token, as in client-go.
fn token(user: &AuthInfo, files: &mut Files) -> Result<Option<Token>, ConfigProblem> {
    if let Some(path) = filled(user.token_file.as_deref()) {
        return token_of(path.into(), files).map(Some);
    }
    if user.auth_provider.is_some() || (user.username.is_some() && user.password.is_some()) {
        return Ok(None);
    }
    let Some(text) = filled(user.token.as_ref().map(ExposeSecret::expose_secret)) else { return Ok(None) };
    let header = bearer(text.as_bytes()).map_err(|what| ConfigProblem::Token { what })?;
    Ok(Some(Token { header, file: None }))
}

fn token_of(path: PathBuf, files: &mut Files) -> Result<Token, ConfigProblem> {
    let text = files.read(&path).map_err(ConfigProblem::File)?;
    match bearer(&text) {
        Ok(header) => Ok(Token { header, file: Some(path) }),
        Err(what) => Err(ConfigProblem::File(FileError::Content { path, what: what.to_owned() })),
    }
}

fn bearer(text: &[u8]) -> Result<HeaderValue, &'static str> {
    // Files often end with a newline; a header must not contain one.
    let token = std::str::from_utf8(text).map_err(|_| "it contains no token")?.trim();
    if token.is_empty() {
        return Err("it is empty");
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| "it contains no token")?;
    header.set_sensitive(true);
    Ok(header)
}

/// Data takes precedence over a file, as in client-go; an empty field counts as absent.
fn pem(
    field: &'static str,
    data: Option<&str>,
    file: Option<&str>,
    files: &mut Files,
) -> Result<Option<Pem>, ConfigProblem> {
    match (filled(data), filled(file)) {
        (Some(data), _) => Ok(Some(Pem { text: decode(field, data)?, file: None })),
        (None, Some(path)) => pem_of(path.into(), files).map(Some),
        (None, None) => Ok(None),
    }
}

fn pem_of(path: PathBuf, files: &mut Files) -> Result<Pem, ConfigProblem> {
    let text = files.read(&path).map_err(ConfigProblem::File)?;
    Ok(Pem { text, file: Some(path) })
}

fn filled(field: Option<&str>) -> Option<&str> {
    field.filter(|field| !field.is_empty())
}

fn decode(field: &'static str, data: &str) -> Result<Vec<u8>, ConfigProblem> {
    STANDARD.decode(data.trim()).map_err(|_| ConfigProblem::Base64 { field })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_may_end_in_a_newline_but_not_be_empty() {
        assert_eq!(bearer(b"abc\n").unwrap(), "Bearer abc");
        assert!(bearer(b"\n").is_err());
        assert!(bearer(b"a\x01b").is_err());
    }

    fn text(user: &str, cluster: &str) -> Source {
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'http://k:1'{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        );
        Source::Text { text: KubeconfigText::new(text), place: "the Secret default/s".to_owned() }
    }

    /// Shows HST-29.
    #[test]
    fn a_kubeconfig_from_a_secret_reaches_for_nothing_on_this_host() {
        assert!(super::super::Connection::load(&text("token: hunter2", "")).is_ok());
        for (user, cluster, field) in [
            ("tokenFile: /etc/passwd", "", "tokenFile"),
            ("client-certificate: /c, client-key: /k", "", "client-certificate"),
            ("exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", "", "exec"),
            ("auth-provider: {name: gcp, config: {cmd-path: sh}}", "", "auth-provider"),
            ("token: hunter2", ", certificate-authority: /etc/passwd", "certificate-authority"),
        ] {
            let error = super::super::Connection::load(&text(user, cluster)).unwrap_err();
            let said = error.sentence();
            assert!(
                said.starts_with("the kubeconfig in the Secret default/s references") && said.contains(field),
                "{said}"
            );
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_token_does_not_show_when_printed() {
        assert!(!format!("{:?}", bearer(b"hunter2").unwrap()).contains("hunter2"));
    }

    #[test]
    fn unterminated_server_address_is_reported_with_its_beginning() {
        let error = server("https:/a: YQ==}}]\nusers: [{name: u, user: {token: hunter2}}]", true).unwrap_err();
        assert!(matches!(&error, ConfigProblem::Server { server } if server == "https:/a:"), "{error:?}");
    }

    #[test]
    fn kubeconfig_with_invalid_utf8_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        for order in [[0xFF, 0xFE], [0xFE, 0xFF]] {
            std::fs::write(&path, [order.as_slice(), b"a\0b"].concat()).unwrap();
            let source = Source::Kubeconfig { path: path.clone(), flag: "--kubeconfig".to_owned() };
            let error = super::super::Connection::load(&source).unwrap_err();
            assert!(matches!(*error.problem, ConfigProblem::Parse { .. }), "{error:?}");
        }
    }

    #[test]
    fn any_kubeconfig_is_read_or_rejected_without_secrets() {
        const SECRET: &str = "hunter2hunter2";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let whole = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u, namespace: n}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://k:6443', certificate-authority-data: YQ==, tls-server-name: k}}}}]\n\
             users: [{{name: u, user: {{token: {SECRET}}}}}]\n"
        );
        let other = whole.replace(&format!("token: {SECRET}"), &format!("username: u, password: {SECRET}"));
        let files = whole.replace(&format!("token: {SECRET}"), "client-certificate: c.pem, client-key: k.pem");
        fuzz::fuzz(&[&whole, &other, &files].map(String::as_bytes), |input| {
            let text = String::from_utf8_lossy(input);
            let kept = |key: &str| text.matches(&format!("{key}: {SECRET}")).count();
            if text.matches(SECRET).count() > kept("token") + kept("password") {
                return; // the value of a name is not a secret
            }
            std::fs::write(&path, input).unwrap();
            let source = Source::Kubeconfig { path: path.clone(), flag: "--kubeconfig".to_owned() };
            if let Err(error) = super::super::Connection::load(&source) {
                let said = format!("{error} {error:?} {}", error.sentence());
                assert!(!said.contains(SECRET), "{said}");
            }
        });
    }
}
