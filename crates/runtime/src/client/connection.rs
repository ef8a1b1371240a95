//! One API server, as one kubeconfig describes it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use kube::client::middleware::{AuthLayer, ExtraHeadersLayer};
use kube::client::{Body, ConfigExt};
use rustls::pki_types::ServerName as TlsName;
use tokio_rustls::TlsConnector;
use tower::util::BoxCloneService;
use tower::{BoxError, Layer};

use super::config_error::{ConfigError, ConfigProblem};
use super::credentials::{TokenFile, WithToken};
use super::detour::{Denials, Detour};
use super::dial::{Dial, TcpDial};
use super::kubeconfig::{Login, Settings, Source};
use super::lane::LaneBody;
use super::lanes::{Lanes, Slot};
use super::spec::{ClientSpec, LaneUse};
use super::stack::{ServerName, Stack};
use super::tls;
use super::trouble::without_output;
use crate::metrics::RestMetrics;

/// How long opening a connection may take, from the name to the end of the TLS handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

type Carrier = BoxCloneService<Request<Body>, Response<LaneBody<Slot>>, BoxError>;

/// A connection to an API server: its address, trust and credentials, read once and checked, and the lanes its clients
/// share. Nothing is sent until a client sends it. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    config: kube::Config,
    headers: ExtraHeadersLayer,
    authority: Authority,
    dial: Arc<dyn Dial>,
    lanes: Lanes,
    name: ServerName,
    denials: Denials,
}

/// Where the authorization of requests comes from.
enum Authority {
    TokenFile(Arc<TokenFile>),
    Kube(AuthLayer),
    /// The client certificate speaks for us, or nothing does.
    None,
}

impl Connection {
    /// Reads and checks everything the source names: no file is missing and no certificate is unreadable afterwards.
    ///
    /// Runs the exec plugin of a kubeconfig that has one, and blocks on it.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let settings = Settings::read(source)?;
        let shared = Shared::build(source, settings)
            .map_err(|problem| ConfigError { source_of: Box::new(source.clone()), problem: Box::new(problem) })?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A client of its own kind on this connection.
    pub fn client(&self, spec: &ClientSpec, metrics: &RestMetrics) -> kube::Client {
        let shared = &self.shared;
        let lanes = match spec.lanes {
            LaneUse::Shared => shared.lanes.clone(),
            LaneUse::Own => Lanes::new(shared.dial.clone()),
        };
        let carrier = shared.carrier(lanes);
        let stack = Stack::new(carrier, spec, metrics, shared.name.clone());
        let detour = Detour::new(stack, shared.denials.clone(), metrics.clone());
        kube::Client::new(detour, &*shared.config.default_namespace)
    }

    /// The namespace of the kubeconfig's context, or of the pod.
    pub fn namespace(&self) -> &str {
        &self.shared.config.default_namespace
    }

    /// The address of the server, for people.
    pub fn server(&self) -> &str {
        &self.shared.name.base
    }

    /// Where the connection was described.
    pub fn source(&self) -> &Source {
        &self.shared.source
    }

    /// The file its token comes from, if it comes from one.
    pub fn token_file(&self) -> Option<&PathBuf> {
        match &self.shared.authority {
            Authority::TokenFile(file) => file.path(),
            Authority::Kube(_) | Authority::None => None,
        }
    }
}

impl Shared {
    fn build(source: &Source, settings: Settings) -> Result<Self, ConfigProblem> {
        let wrong_server = || ConfigProblem::Server { server: settings.server.to_string() };
        let host = settings.server.host().ok_or_else(wrong_server)?.to_owned();
        let with_tls = settings.server.scheme_str() == Some("https");
        let port = settings.server.port_u16().unwrap_or(if with_tls { 443 } else { 80 });
        let tls = if with_tls {
            let name = settings.server_name.unwrap_or_else(|| host.trim_matches(['[', ']']).to_owned());
            let name = TlsName::try_from(name.clone()).map_err(|_| ConfigProblem::Server { server: name })?;
            let config = tls::client_config(settings.trust, settings.identity).map_err(ConfigProblem::Tls)?;
            Some((TlsConnector::from(Arc::new(config)), name))
        } else {
            None
        };
        let name = ServerName {
            base: settings.server.to_string().trim_end_matches('/').to_owned(),
            host: settings.server.authority().map(ToString::to_string).unwrap_or_default(),
        };

        let mut config = kube::Config::new(settings.server);
        config.default_namespace = settings.namespace;
        let credentials = |error: kube::Error| ConfigProblem::Credentials {
            what: match &error {
                kube::Error::Auth(why) => without_output(why),
                _ => "a header that it asks for cannot be sent".to_owned(),
            },
        };
        let authority = match settings.login {
            Login::TokenFile(path) => {
                Authority::TokenFile(Arc::new(TokenFile::open(path).map_err(ConfigProblem::File)?))
            }
            Login::User(user) => {
                let by_plugin = user.exec.is_some();
                config.auth_info = *user;
                match config.auth_layer().map_err(credentials)? {
                    Some(layer) => Authority::Kube(layer),
                    None if by_plugin => return Err(ConfigProblem::ExecCertificate),
                    None => Authority::None,
                }
            }
        };
        let headers = config.extra_headers_layer().map_err(credentials)?;
        let dial: Arc<dyn Dial> = Arc::new(TcpDial { host, port, tls, timeout: CONNECT_WITHIN });
        let lanes = Lanes::new(dial.clone());
        let denials = Denials::default();
        Ok(Self { source: source.clone(), config, headers, authority, dial, lanes, name, denials })
    }

    fn carrier(&self, lanes: Lanes) -> Carrier {
        let addressed = self.config.base_uri_layer().layer(lanes);
        match &self.authority {
            Authority::TokenFile(token) => {
                let authorised = WithToken { carrier: addressed, token: token.clone() };
                BoxCloneService::new(self.headers.layer(authorised))
            }
            Authority::Kube(layer) => BoxCloneService::new(self.headers.layer(layer.layer(addressed))),
            Authority::None => BoxCloneService::new(self.headers.layer(addressed)),
        }
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
