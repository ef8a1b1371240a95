//! What a kubeconfig, or a pod's service account, says about a connection.
//!
//! kube's reader finds the files; the choice of context, cluster and user is made here, for three reasons. An unknown user is
//! an error and not an anonymous request that fails with 403 an hour later. The environment is not consulted: `HTTPS_PROXY`
//! may be meant for the cloud and not for the cluster next door. And each mistake gets its own sentence.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig, KubeconfigError};
use secrecy::ExposeSecret;

use super::config_error::{ConfigError, ConfigProblem};
use super::reread::read_file;
use super::tls::{Identity, Trust};

/// Where the description of a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// The flag that named it, to name it in errors: `--target-kubeconfig`.
        flag: String,
    },
    /// The service account of the pod we run in.
    InCluster(InCluster),
}

/// What a pod knows of its cluster. The environment is the binary's to read.
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
    /// With the usual mount.
    pub fn new(host: Option<String>, port: Option<String>) -> Self {
        Self { host, port, mount: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount") }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig { path, flag } => write!(f, "the kubeconfig {} ({flag})", path.display()),
            Self::InCluster(_) => f.write_str("the service account of this pod"),
        }
    }
}

/// A connection, described.
pub(super) struct Settings {
    pub(super) server: http::Uri,
    pub(super) server_name: Option<String>,
    pub(super) namespace: String,
    pub(super) trust: Trust,
    pub(super) identity: Option<Identity>,
    pub(super) login: Login,
}

/// How we say who we are in a request.
pub(super) enum Login {
    /// With the token that this file holds at the time.
    TokenFile(PathBuf),
    /// With whatever else the kubeconfig says: token, password, exec plugin, or nothing beyond the client certificate.
    User(Box<AuthInfo>),
}

impl Settings {
    pub(super) fn read(source: &Source) -> Result<Self, ConfigError> {
        let read = match source {
            Source::Kubeconfig { path, .. } => Self::from_file(path),
            Source::InCluster(pod) => Self::from_pod(pod),
        };
        read.map_err(|problem| ConfigError { source_of: Box::new(source.clone()), problem: Box::new(problem) })
    }

    fn from_file(path: &Path) -> Result<Self, ConfigProblem> {
        let config = Kubeconfig::read_from(path).map_err(|error| match error {
            KubeconfigError::ReadConfig(why, _) => ConfigProblem::Read(why),
            // Its text may quote the file; only the place is kept.
            KubeconfigError::Parse(why) => {
                ConfigProblem::Parse { place: why.location().map(|place| (place.line(), place.column())) }
            }
            _ => ConfigProblem::Parse { place: None },
        })?;
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
        let trust = trust(&cluster)?;
        let identity = identity(&user)?;
        let tls = identity.is_some() || !matches!(trust, Trust::System);
        Ok(Self {
            server: server(cluster.server.as_deref().unwrap_or_default(), tls)?,
            server_name: cluster.tls_server_name.filter(|name| !name.is_empty()),
            namespace: context.namespace.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
            trust,
            identity,
            login: login(user),
        })
    }

    fn from_pod(pod: &InCluster) -> Result<Self, ConfigProblem> {
        let variable = |value: &Option<String>, variable| {
            value.clone().filter(|value| !value.is_empty()).ok_or(ConfigProblem::NotInCluster { variable })
        };
        let host = variable(&pod.host, "KUBERNETES_SERVICE_HOST")?;
        let port = variable(&pod.port, "KUBERNETES_SERVICE_PORT")?;
        let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host };
        let namespace = read_file(&pod.mount.join("namespace")).map_err(ConfigProblem::File)?;
        Ok(Self {
            server: server(&format!("https://{host}:{port}"), true)?,
            server_name: None,
            namespace: String::from_utf8_lossy(&namespace).trim().to_owned(),
            trust: Trust::File(pod.mount.join("ca.crt")),
            identity: None,
            login: Login::TokenFile(pod.mount.join("token")),
        })
    }
}

/// An address without a scheme is one with TLS if there is anything to do TLS with, as client-go reads it.
fn server(text: &str, tls: bool) -> Result<http::Uri, ConfigProblem> {
    let scheme = if tls { "https" } else { "http" };
    let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let wrong = || ConfigProblem::Server { server: text.to_owned() };
    let uri: http::Uri = full.parse().map_err(|_| wrong())?;
    let known = matches!(uri.scheme_str(), Some("https" | "http"));
    let named = uri.host().is_some_and(|host| !host.is_empty());
    if known && named { Ok(uri) } else { Err(wrong()) }
}

fn trust(cluster: &Cluster) -> Result<Trust, ConfigProblem> {
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Ok(Trust::Anyone);
    }
    // Data wins over a file, as in client-go; an empty field is an absent one.
    if let Some(data) = filled(cluster.certificate_authority_data.as_deref()) {
        return Ok(Trust::Bundle(decode("certificate-authority-data", data)?));
    }
    Ok(filled(cluster.certificate_authority.as_deref()).map_or(Trust::System, |path| Trust::File(path.into())))
}

fn identity(user: &AuthInfo) -> Result<Option<Identity>, ConfigProblem> {
    let certificate = filled(user.client_certificate_data.as_deref());
    let certificate_file = filled(user.client_certificate.as_deref());
    let key = filled(user.client_key_data.as_ref().map(ExposeSecret::expose_secret));
    let key_file = filled(user.client_key.as_deref());
    if let (None, Some(certificate), None, Some(key)) = (certificate, certificate_file, key, key_file) {
        return Ok(Some(Identity::Files { certificate: certificate.into(), key: key.into() }));
    }
    let content = |field, data, file: Option<&str>| match (data, file) {
        (Some(data), _) => decode(field, data).map(Some),
        (None, Some(path)) => read_file(Path::new(path)).map(Some).map_err(ConfigProblem::File),
        (None, None) => Ok(None),
    };
    let certificate = content("client-certificate-data", certificate, certificate_file)?;
    let key = content("client-key-data", key, key_file)?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(Identity::Inline { certificate, key })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(ConfigProblem::HalfIdentity { missing: "client-certificate" }),
        (Some(_), None) => Err(ConfigProblem::HalfIdentity { missing: "client-key" }),
    }
}

/// A token file wins over a token beside it: it is the one that is renewed.
fn login(user: AuthInfo) -> Login {
    match filled(user.token_file.as_deref()) {
        Some(path) => Login::TokenFile(path.into()),
        None => Login::User(Box::new(user)),
    }
}

fn filled(field: Option<&str>) -> Option<&str> {
    field.filter(|field| !field.is_empty())
}

fn decode(field: &'static str, data: &str) -> Result<Vec<u8>, ConfigProblem> {
    STANDARD.decode(data.trim()).map_err(|_| ConfigProblem::Base64 { field })
}
