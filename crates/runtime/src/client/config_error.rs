//! Why a connection cannot even be described, in words that help.
//!
//! A controller that does not start is read about in one line of a log. So each error names the file and the flag it came
//! from, what is wrong, and what to do. Nothing here quotes the kubeconfig: it holds tokens and keys.

use std::path::PathBuf;

use super::files::FileError;
use super::kubeconfig::Source;

use super::api_error::innermost;
use super::tls::TlsError;

/// A kubeconfig, or the pod's service account, that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("failed to use {source_of}")]
pub struct ConfigError {
    /// Where it came from.
    pub source_of: Box<Source>,
    /// What is wrong with it.
    #[source]
    pub problem: Box<ConfigProblem>,
}

/// What can be wrong with the description of a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// The kubeconfig cannot be read.
    #[error("failed to read the kubeconfig")]
    Read(#[source] std::io::Error),
    /// It is not YAML, or not a kubeconfig.
    #[error("failed to understand the kubeconfig{}", place.map(|(line, column)| format!(" at line {line}, column {column}")).unwrap_or_default())]
    Parse {
        /// Line and column of the mistake.
        place: Option<(u64, u64)>,
    },
    /// It has no current context.
    #[error("failed to find a current context")]
    NoCurrentContext,
    /// The current context is not among the contexts.
    #[error("failed to find the context {name:?}")]
    UnknownContext {
        /// The context asked for.
        name: String,
    },
    /// The context's cluster is not among the clusters.
    #[error("failed to find the cluster {name:?} of the context {context:?}")]
    UnknownCluster {
        /// The cluster asked for.
        name: String,
        /// By this context.
        context: String,
    },
    /// The context's user is not among the users.
    #[error("failed to find the user {name:?} of the context {context:?}")]
    UnknownUser {
        /// The user asked for.
        name: String,
        /// By this context.
        context: String,
    },
    /// The cluster has no usable server address.
    #[error("failed to understand the server address {server:?}")]
    Server {
        /// What it says.
        server: String,
    },
    /// A field that should be base64 is not.
    #[error("failed to decode {field}")]
    Base64 {
        /// Which one.
        field: &'static str,
    },
    /// A file it names cannot be used.
    #[error("failed to use a file it names")]
    File(#[source] FileError),
    /// Its certificates or keys cannot be used.
    #[error("failed to set up TLS")]
    Tls(#[source] TlsError),
    /// A certificate without a key, or a key without a certificate.
    #[error("failed to find {missing}")]
    ComponentIdentity {
        /// The field that is missing.
        missing: &'static str,
    },
    /// The user's credentials cannot be set up, for instance because its exec plugin fails.
    #[error("failed to set up the user's credentials: {what}")]
    Credentials {
        /// What is wrong, without what a plugin printed.
        what: String,
    },
    /// The user's exec plugin answers with a client certificate.
    #[error("failed to use the client certificate of an exec plugin")]
    ExecCertificate,
    /// Its token is none.
    #[error("failed to use its token: {what}")]
    Token {
        /// What is wrong with it.
        what: &'static str,
    },
    /// It was rewritten, and is of another connection now.
    #[error("failed to follow it to another {what}")]
    Moved {
        /// What is another.
        what: &'static str,
    },
    /// It was rewritten, and says no longer who we are.
    #[error("failed to find credentials where there were some")]
    Anonymous,
    /// It came over the network, and asks for something of this host.
    #[error("failed to trust {field}, which names something of this host")]
    Reaches {
        /// Which field does.
        field: &'static str,
    },
    /// The cluster is behind a proxy.
    #[error("failed to use proxy-url")]
    Proxy,
    /// We do not run in a pod.
    #[error("failed to find {variable} in the environment")]
    NotInCluster {
        /// The variable that every pod has.
        variable: &'static str,
    },
}

impl ConfigProblem {
    /// What is wrong and what to do, to follow the name of the file.
    fn advice(&self) -> String {
        match self {
            Self::Read(why) => format!("cannot be read ({why}); check the path and its permissions"),
            Self::Parse { place: Some((line, column)) } => {
                format!("is not a valid kubeconfig (line {line}, column {column}); check its YAML")
            }
            Self::Parse { place: None } => "is not a valid kubeconfig; check its YAML".to_owned(),
            Self::NoCurrentContext => "has no current-context; set it to one of its contexts".to_owned(),
            Self::UnknownContext { name } => {
                format!("has no context {name:?}, which its current-context names; add it or choose another")
            }
            Self::UnknownCluster { name, context } => {
                format!("has no cluster {name:?}, which its context {context:?} names; add it under clusters")
            }
            Self::UnknownUser { name, context } => {
                format!("has no user {name:?}, which its context {context:?} names; add it under users")
            }
            Self::Server { server } if server.is_empty() => {
                "names no server; set server of its cluster to an address like https://host:443".to_owned()
            }
            Self::Server { server } => {
                format!("has a server {server:?} that is no address; use one like https://host:443")
            }
            Self::Base64 { field } => format!("has a {field} that is not base64; encode it, or name a file instead"),
            Self::File(why) | Self::Tls(TlsError::File(why)) => format!("needs {}", file_advice(why)),
            Self::Tls(TlsError::Authority { what }) => {
                format!(
                    "has a certificate-authority-data that cannot be used: {what}; replace it by the server's CA in PEM"
                )
            }
            Self::Tls(TlsError::Identity { what }) => {
                format!("has client-certificate-data and client-key-data that cannot be used: {what}; replace both")
            }
            Self::Tls(why @ (TlsError::System(_) | TlsError::Setup(_))) => {
                let why = innermost(why);
                format!(
                    "names no certificate authority, and those of the system cannot be used ({why}); set certificate-authority"
                )
            }
            Self::ComponentIdentity { missing } => {
                format!("has half a client identity; add {missing}, or remove the other component")
            }
            Self::Credentials { what } => format!("has credentials that cannot be used ({what}); check its user"),
            Self::ExecCertificate => {
                "has an exec plugin that answers with a client certificate; use one that answers with a token"
                    .to_owned()
            }
            Self::Token { what } => format!("has a token that cannot be used: {what}; replace it"),
            Self::Moved { what } => {
                format!("has another {what} than when this process began; restart it if that is meant")
            }
            Self::Anonymous => "has no credentials any more; put a token or a client certificate there".to_owned(),
            Self::Reaches { field } => {
                format!("names a file or a program of this host ({field}); put certificates, keys and tokens into it")
            }
            Self::Proxy => "asks for a proxy (proxy-url), which is not supported; remove it".to_owned(),
            Self::NotInCluster { variable } => {
                format!("is not there, {variable} is not set; run in a pod, or name a kubeconfig")
            }
        }
    }
}

fn file_advice(error: &FileError) -> String {
    let place = |path: &PathBuf| path.display().to_string();
    match error {
        FileError::Read { path, source } => {
            format!("the file {}, which cannot be read ({source}); check that it is mounted and readable", place(path))
        }
        FileError::Content { path, what } => {
            format!("the file {}, which cannot be used: {what}; replace it", place(path))
        }
    }
}

impl ConfigError {
    /// One sentence for people: which file, given by which flag, what is wrong, what to do.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.source_of, self.problem.advice())
    }
}
