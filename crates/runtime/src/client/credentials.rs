//! Credentials and CA certificates, reloaded when their files change.
//!
//! Credentials are renewed on disk in different ways: a kubeconfig with an embedded token or certificate is rewritten,
//! a file that it references is rewritten, or the folder of a pod's service account is replaced. A controller that read
//! them only once would fail when the old ones expire. Therefore each request first checks whether a file has changed.
//! If so, everything is read again, as at the start.
//!
//! * The next request uses a renewed token.
//! * A renewed client certificate or CA starts a new *era*: the next request uses a connection that was opened with it.
//!   Open watches stay on their connections.
//! * Invalid files are not used: an incomplete rotation is common (the certificate is written, the key is not). The
//!   previous credentials stay in use, because they may still be valid, and a warning is logged once.
//! * If the files describe another server, they are not used until a restart. Otherwise the credentials for that server
//!   would be sent to this one. A changed namespace is ignored.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::client::middleware::{AuthLayer, ExtraHeadersLayer};
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use parking_lot::Mutex;
use tokio_rustls::TlsConnector;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::api_error::without_output;
use super::config_error::{ConfigError, ConfigProblem};
use super::dial::DialError;
use super::failure::Failure;
use super::files::Files;
use super::kubeconfig::{Address, Settings, Source, Token};
use super::tls::{self, Identity, Trust};

/// The credentials of one connection, reloaded when they change.
pub(crate) struct Credentials {
    source: Source,
    address: Address,
    kept: Mutex<Kept>,
}

struct Kept {
    valid: Arc<Valid>,
    files: Files,
    /// A server rejected them: they are read again at the next use, changed or not.
    doubted: bool,
    /// The last warning about files that cannot be used.
    logged_error: Option<String>,
}

/// Credentials that were valid when they were read.
pub(crate) struct Valid {
    /// Number of renewals of the certificates with which connections are opened.
    pub(crate) era: u64,
    /// The TLS configuration of new connections, if TLS is used.
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) token: Option<Token>,
    plugin: Option<Arc<AuthLayer>>,
    headers: ExtraHeadersLayer,
    trust: Trust,
    identity: Option<Identity>,
    user: AuthInfo,
}

impl Credentials {
    /// Returns the credentials from these settings and files, which were read for the first time.
    pub(crate) fn new(source: &Source, settings: Settings, files: Files) -> Result<Self, ConfigProblem> {
        let address = settings.address.clone();
        let valid = Arc::new(Valid::of(settings, None)?);
        if valid.trust == Trust::Anyone {
            tracing::warn!(
                of = %source,
                "insecure-skip-tls-verify is set: the server is not verified, and any host at its address receives the credentials; set certificate-authority instead"
            );
        }
        let kept = Kept { valid, files, doubted: false, logged_error: None };
        Ok(Self { source: source.clone(), address, kept: Mutex::new(kept) })
    }

    /// Returns the credentials from the files, or the last valid ones.
    pub(crate) fn current(&self) -> Arc<Valid> {
        let mut kept = self.kept.lock();
        if !kept.doubted && !kept.files.have_changed() {
            return kept.valid.clone();
        }
        let mut files = Files::default();
        let read = Settings::read(&self.source, &mut files);
        (kept.files, kept.doubted) = (files, false);
        match read.and_then(|settings| self.follow(settings, &kept.valid)) {
            Ok(next) => {
                let renewed = next.differs_from(&kept.valid);
                if !renewed.is_empty() || kept.logged_error.is_some() {
                    let what = if renewed.is_empty() { "nothing" } else { &*renewed.join(", ") };
                    tracing::info!(of = %self.source, renewed = what, "reloaded credentials; new requests use them, open watches continue");
                }
                (kept.valid, kept.logged_error) = (Arc::new(next), None);
            }
            Err(problem) => {
                let error = ConfigError { source_of: Box::new(self.source.clone()), problem: Box::new(problem) };
                let logged_error = error.sentence();
                if kept.logged_error.as_ref() != Some(&logged_error) {
                    tracing::warn!("{logged_error}. The previous credentials stay in use.");
                    kept.logged_error = Some(logged_error);
                }
            }
        }
        kept.valid.clone()
    }

    /// Returns the current credentials without a check of the files.
    pub(crate) fn in_use(&self) -> Arc<Valid> {
        self.kept.lock().valid.clone()
    }

    fn follow(&self, settings: Settings, before: &Valid) -> Result<Valid, ConfigProblem> {
        let moved = |what| Err(ConfigProblem::Moved { what });
        if settings.address.server != self.address.server {
            return moved("server");
        }
        if settings.address.server_name != self.address.server_name {
            return moved("tls-server-name");
        }
        if (settings.trust == Trust::Anyone) != (before.trust == Trust::Anyone) {
            return moved("insecure-skip-tls-verify");
        }
        let next = Valid::of(settings, Some(before))?;
        // If the credentials are missing now, the files are still being written.
        if next.is_anonymous() && !before.is_anonymous() {
            return Err(ConfigProblem::Anonymous);
        }
        Ok(next)
    }

    /// Forces a reload at the next use. A file that was rewritten in place within the resolution of the file system's
    /// timestamps looks unchanged.
    fn doubt(&self) {
        self.kept.lock().doubted = true;
    }
}

impl Valid {
    fn of(settings: Settings, before: Option<&Self>) -> Result<Self, ConfigProblem> {
        let Settings { address, trust, identity, token, user, .. } = settings;
        let kept = before.filter(|before| before.trust == trust && before.identity == identity);
        let (era, tls) = match (kept, address.server.scheme_str() == Some("https")) {
            (Some(kept), _) => (kept.era, kept.tls.clone()),
            (None, with_tls) => {
                let config = with_tls.then(|| tls::client_config(&trust, identity.as_ref()));
                let config = config.transpose().map_err(ConfigProblem::Tls)?;
                (before.map_or(0, |before| before.era + 1), config.map(|config| TlsConnector::from(Arc::new(config))))
            }
        };
        let mut config = kube::Config::new(address.server);
        config.auth_info = AuthInfo { token: None, token_file: None, ..*user };
        let headers = config.extra_headers_layer().map_err(|error| unusable(&error))?;
        let plugin = match before.filter(|before| same_plugin(&before.user, &config.auth_info)) {
            _ if token.is_some() => None,
            // The plugin already has a token, and would have to run again for another one.
            Some(before) if before.plugin.is_some() => before.plugin.clone(),
            _ => config.auth_layer().map_err(|error| unusable(&error))?.map(Arc::new),
        };
        if config.auth_info.exec.is_some() && token.is_none() && plugin.is_none() {
            return Err(ConfigProblem::ExecCertificate);
        }
        Ok(Self { era, tls, token, plugin, headers, trust, identity, user: config.auth_info })
    }

    fn is_anonymous(&self) -> bool {
        self.token.is_none() && self.identity.is_none() && self.plugin.is_none()
    }

    /// Returns the names of the changed parts, for messages.
    fn differs_from(&self, before: &Self) -> Vec<&'static str> {
        let header = |valid: &Self| valid.token.as_ref().map(|token| token.header.clone());
        let plugin = |valid: &Self| valid.plugin.as_ref().map(Arc::as_ptr);
        let parts = [
            ("the token", header(self) != header(before)),
            ("the client certificate", self.identity != before.identity),
            ("the CA certificate", self.trust != before.trust),
            ("the user", plugin(self) != plugin(before)),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
    }
}

/// Returns whether two users get their tokens in the same way.
fn same_plugin(one: &AuthInfo, other: &AuthInfo) -> bool {
    let way = |user: &AuthInfo| {
        serde_json::to_value(AuthInfo {
            username: user.username.clone(),
            password: user.password.clone(),
            auth_provider: user.auth_provider.clone(),
            exec: user.exec.clone(),
            ..AuthInfo::default()
        })
        .ok()
    };
    way(one).is_some_and(|one| way(other) == Some(one))
}

fn unusable(error: &kube::Error) -> ConfigProblem {
    ConfigProblem::Credentials {
        what: match error {
            kube::Error::Auth(why) => without_output(why),
            _ => "a header of the user contains characters that are not valid".to_owned(),
        },
    }
}

/// A service that adds the current credentials to each request.
#[derive(Clone)]
pub(crate) struct Credited<S> {
    pub(crate) carrier: S,
    pub(crate) credentials: Arc<Credentials>,
}

impl<S, B> Service<Request<Body>> for Credited<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (carrier, credentials) = (self.carrier.clone(), self.credentials.clone());
        Box::pin(async move {
            let valid = credentials.current();
            let answer = match (&valid.token, &valid.plugin) {
                (Some(token), _) => {
                    request.headers_mut().insert(AUTHORIZATION, token.header.clone());
                    valid.headers.layer(carrier).oneshot(request).await
                }
                (None, Some(plugin)) => valid.headers.layer(plugin.layer(carrier)).oneshot(request).await,
                (None, None) => valid.headers.layer(carrier).oneshot(request).await,
            };
            // The request is not retried here; the caller decides that. The next request reloads the credentials.
            let refused = match &answer {
                Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
                Err(error) => {
                    matches!(Failure::within(&**error), Some(Failure::Dial(why)) if matches!(**why, DialError::Tls { .. }))
                }
            };
            if refused {
                credentials.doubt();
            }
            answer
        })
    }
}
