//! Errors in the configuration of a connection, with advice.
//!
//! If a controller does not start, users see one line of its log. Therefore each error names the file and the flag it
//! came from, the problem, and the fix. No error quotes the kubeconfig, because it contains tokens and keys.

use std::path::PathBuf;

use super::files::FileError;
use super::kubeconfig::Source;

use super::api_error::innermost;
use super::tls::TlsError;

/// A kubeconfig, or the pod's service account, that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("failed to use {source_of}")]
pub struct ConfigError {
    /// The source of the configuration.
    pub source_of: Box<Source>,
    /// The problem.
    #[source]
    pub problem: Box<ConfigProblem>,
}

/// Problems of the configuration of a connection.
#[derive(Debug, thiserror::Error)]
pub enum ConfigProblem {
    /// The kubeconfig cannot be read.
    #[error("failed to read the kubeconfig")]
    Read(#[source] std::io::Error),
    /// It is not valid YAML, or not a kubeconfig.
    #[error("failed to parse the kubeconfig{}", place.map(|(line, column)| format!(" at line {line}, column {column}")).unwrap_or_default())]
    Parse {
        /// Line and column of the error.
        place: Option<(u64, u64)>,
    },
    /// It has no current context.
    #[error("failed to find a current context")]
    NoCurrentContext,
    /// The current context is not among the contexts.
    #[error("failed to find the context {name:?}")]
    UnknownContext {
        /// The requested context.
        name: String,
    },
    /// The context's cluster is not among the clusters.
    #[error("failed to find the cluster {name:?} of the context {context:?}")]
    UnknownCluster {
        /// The requested cluster.
        name: String,
        /// The context that references it.
        context: String,
    },
    /// The context's user is not among the users.
    #[error("failed to find the user {name:?} of the context {context:?}")]
    UnknownUser {
        /// The requested user.
        name: String,
        /// The context that references it.
        context: String,
    },
    /// The cluster has no usable server address.
    #[error("failed to parse the server address {server:?}")]
    Server {
        /// The value of the field.
        server: String,
    },
    /// A field that should be base64 is not.
    #[error("failed to decode {field}")]
    Base64 {
        /// The name of the field.
        field: &'static str,
    },
    /// A referenced file cannot be used.
    #[error("failed to use a referenced file")]
    File(#[source] FileError),
    /// Its certificates or keys cannot be used.
    #[error("failed to set up TLS")]
    Tls(#[source] TlsError),
    /// A certificate without a key, or a key without a certificate.
    #[error("failed to find {missing}")]
    IncompleteIdentity {
        /// The field that is missing.
        missing: &'static str,
    },
    /// The user's credentials cannot be set up, for instance because its exec plugin fails.
    #[error("failed to set up the user's credentials: {what}")]
    Credentials {
        /// The problem, without the output of a plugin.
        what: String,
    },
    /// The user's exec plugin returns a client certificate.
    #[error("failed to use the client certificate of an exec plugin")]
    ExecCertificate,
    /// Its token is not valid.
    #[error("failed to use its token: {what}")]
    Token {
        /// What is wrong with it.
        what: &'static str,
    },
    /// The file was rewritten and now describes another connection.
    #[error("failed to reload: {what} has changed")]
    Moved {
        /// The field that changed.
        what: &'static str,
    },
    /// The file was rewritten and contains no credentials any more.
    #[error("failed to reload: the credentials were removed")]
    Anonymous,
    /// The kubeconfig came over the network and references something on this host.
    #[error("failed to use {field}: it references a file or program on this host")]
    Reaches {
        /// The field with the reference.
        field: &'static str,
    },
    /// The cluster is behind a proxy.
    #[error("failed to use proxy-url")]
    Proxy,
    /// The process does not run in a pod.
    #[error("failed to find {variable} in the environment")]
    NotInCluster {
        /// The environment variable that every pod has.
        variable: &'static str,
    },
}

impl ConfigProblem {
    /// Returns the problem and the fix, to be appended to the name of the file.
    fn advice(&self) -> String {
        match self {
            Self::Read(why) => format!("cannot be read ({why}); check the path and its permissions"),
            Self::Parse { place: Some((line, column)) } => {
                format!("is not a valid kubeconfig (line {line}, column {column}); check its YAML")
            }
            Self::Parse { place: None } => "is not a valid kubeconfig; check its YAML".to_owned(),
            Self::NoCurrentContext => "has no current-context; set it to one of its contexts".to_owned(),
            Self::UnknownContext { name } => {
                format!("has no context {name:?}, which is its current-context; add it or set another one")
            }
            Self::UnknownCluster { name, context } => {
                format!("has no cluster {name:?}, which its context {context:?} references; add it under clusters")
            }
            Self::UnknownUser { name, context } => {
                format!("has no user {name:?}, which its context {context:?} references; add it under users")
            }
            Self::Server { server } if server.is_empty() => {
                "has no server; set server of its cluster to a URL like https://host:443".to_owned()
            }
            Self::Server { server } => {
                format!("has an invalid server {server:?}; use a URL like https://host:443")
            }
            Self::Base64 { field } => {
                format!("has a {field} that is not base64; encode it, or reference a file instead")
            }
            Self::File(why) | Self::Tls(TlsError::File(why)) => format!("needs {}", file_advice(why)),
            Self::Tls(TlsError::Authority { what }) => {
                format!(
                    "has an invalid certificate-authority-data: {what}; replace it with the CA certificate of the server in PEM"
                )
            }
            Self::Tls(TlsError::Identity { what }) => {
                format!("has invalid client-certificate-data and client-key-data: {what}; replace both")
            }
            Self::Tls(why @ (TlsError::System(_) | TlsError::Setup(_))) => {
                let why = innermost(why);
                format!(
                    "has no certificate-authority, and the CA certificates of the operating system cannot be used ({why}); set certificate-authority"
                )
            }
            Self::IncompleteIdentity { missing } => {
                format!("has an incomplete client certificate; add {missing}, or remove the other field")
            }
            Self::Credentials { what } => format!("has credentials that cannot be used ({what}); check its user"),
            Self::ExecCertificate => {
                "has an exec plugin that returns a client certificate; use one that returns a token".to_owned()
            }
            Self::Token { what } => format!("has a token that cannot be used: {what}; replace it"),
            Self::Moved { what } => {
                format!("has another {what} than at the start of this process; restart the process to use it")
            }
            Self::Anonymous => "has no credentials any more; add a token or a client certificate".to_owned(),
            Self::Reaches { field } => {
                format!(
                    "references a file or program on this host ({field}); embed certificates, keys and tokens instead"
                )
            }
            Self::Proxy => "has a proxy-url, which is not supported; remove it".to_owned(),
            Self::NotInCluster { variable } => {
                format!("is not available: {variable} is not set; run in a pod, or specify a kubeconfig")
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
    /// Returns a sentence for users: file, flag, problem and fix.
    pub fn sentence(&self) -> String {
        format!("{} {}", self.source_of, self.problem.advice())
    }
}
