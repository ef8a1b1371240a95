//! A connection to one API server, as a kubeconfig describes it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::client::ConfigExt;
use rustls::pki_types::ServerName as TlsName;
use tower::Layer;

use super::config_error::{ConfigError, ConfigProblem};
use super::connections::Connections;
use super::credentials::{Credentials, Credited};
use super::dial::{Dial, TcpDial};
use super::files::Files;
use super::kubeconfig::{Settings, Source};
use super::server_time::ServerTime;
use super::spec::{ClientSpec, ConnectionUse};
use super::stack::{ServerName, Stack};
use super::update_fallback::{Denials, UpdateFallback};
use crate::metrics::RestMetrics;

/// Timeout for opening a connection, from name resolution to the end of the TLS handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A connection to an API server. Its address is read once. Its CA and credentials are reloaded when the files change.
/// Its clients share the HTTP connections. Nothing is sent before a client sends a request. Cheap to clone; clones
/// share everything.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    config: kube::Config,
    credentials: Arc<Credentials>,
    dial: Arc<dyn Dial>,
    connections: Connections,
    name: ServerName,
    denials: Denials,
    server_time: ServerTime,
}

impl Connection {
    /// Reads and validates everything that the source references: all files exist and all certificates are valid.
    ///
    /// Runs the exec plugin of a kubeconfig that has one, and blocks until it ends.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let shared = Shared::build(source)
            .map_err(|problem| ConfigError { source_of: Box::new(source.clone()), problem: Box::new(problem) })?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns a client with these settings on this connection.
    pub fn client(&self, spec: &ClientSpec, metrics: &RestMetrics) -> kube::Client {
        let shared = &self.shared;
        let connections = match spec.connections {
            ConnectionUse::Shared => shared.connections.clone(),
            ConnectionUse::Own => Connections::new(shared.dial.clone()),
        };
        let addressed = shared.config.base_uri_layer().layer(connections);
        let carrier = Credited { carrier: addressed, credentials: shared.credentials.clone() };
        let spec = spec.clone().noting(&shared.server_time);
        let stack = Stack::new(carrier, &spec, metrics, shared.name.clone());
        let update_fallback = UpdateFallback::new(stack, shared.denials.clone(), metrics.clone());
        kube::Client::new(update_fallback, &*shared.config.default_namespace)
    }

    /// Returns the clock of the server, as observed in the responses to all clients of this connection.
    pub fn server_time(&self) -> &ServerTime {
        &self.shared.server_time
    }

    /// Returns the namespace of the kubeconfig's context, or of the pod.
    pub fn namespace(&self) -> &str {
        &self.shared.config.default_namespace
    }

    /// Returns the address of the server, for messages.
    pub fn server(&self) -> &str {
        &self.shared.name.base
    }

    /// Returns the source of the configuration.
    pub fn source(&self) -> &Source {
        &self.shared.source
    }

    /// Returns the file of the token, if it comes from a file.
    pub fn token_file(&self) -> Option<PathBuf> {
        self.shared.credentials.in_use().token.as_ref()?.file.clone()
    }
}

impl Shared {
    fn build(source: &Source) -> Result<Self, ConfigProblem> {
        let mut files = Files::default();
        let settings = Settings::read(source, &mut files)?;
        let server = settings.address.server.clone();
        if let Some(field) = settings.withheld {
            tracing::warn!(
                %source, %server, field,
                "no credentials are sent, because the server does not use TLS; use an https address"
            );
        }
        let wrong_server = || ConfigProblem::Server { server: server.to_string() };
        let host = server.host().ok_or_else(wrong_server)?.to_owned();
        let with_tls = server.scheme_str() == Some("https");
        let port = server.port_u16().unwrap_or(if with_tls { 443 } else { 80 });
        let certified = if with_tls {
            let name = settings.address.server_name.clone();
            let name = name.unwrap_or_else(|| host.trim_matches(['[', ']']).to_owned());
            Some(TlsName::try_from(name.clone()).map_err(|_| ConfigProblem::Server { server: name })?)
        } else {
            None
        };
        let name = ServerName {
            base: server.to_string().trim_end_matches('/').to_owned(),
            host: server.authority().map(ToString::to_string).unwrap_or_default(),
        };
        let mut config = kube::Config::new(server);
        config.default_namespace.clone_from(&settings.namespace);
        let credentials = Arc::new(Credentials::new(source, settings, files)?);
        let dial = TcpDial { host, port, name: certified, credentials: credentials.clone(), timeout: CONNECT_WITHIN };
        let dial: Arc<dyn Dial> = Arc::new(dial);
        let connections = Connections::new(dial.clone());
        Ok(Self {
            source: source.clone(),
            config,
            credentials,
            dial,
            connections,
            name,
            denials: Denials::default(),
            server_time: ServerTime::default(),
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server())
            .field("source", &self.shared.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
