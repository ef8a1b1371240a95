//! Who we are and whom we trust, as the files say it now.
//!
//! Credentials are renewed on disk, in whatever form they came: a kubeconfig with a token or a certificate in it is rewritten, a
//! file that it names is, or the folder of a pod's service account is swapped. A controller that read them once works until the old ones
//! expire and then fails all at once. So each request first looks whether a file has changed, and if so everything is read again,
//! as at the start.
//!
//! * A renewed token is on the next request.
//! * A renewed client certificate or authority begins a new *era*: the next request goes over a connection that was opened with it.
//!   Watches that are open stay on theirs.
//! * What cannot be used is not: half a rotation is common (certificate written, key not yet). What was read before stays in use, it may
//!   still be valid, and the log says so once.
//! * A description of another server is not a renewed one. To follow it would show that server's credentials to this one, so the whole
//!   of it waits for a restart. Another namespace is of no interest here.

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

/// The credentials of one connection, followed.
pub(crate) struct Credentials {
    source: Source,
    address: Address,
    kept: Mutex<Kept>,
}

struct Kept {
    valid: Arc<Valid>,
    files: Files,
    /// A server did not accept them: they are read again at the next look, changed or not.
    doubted: bool,
    /// What was last said about files that cannot be used.
    complaint: Option<String>,
}

/// Credentials that made sense when they were read.
pub(crate) struct Valid {
    /// How often what connections are opened with has been renewed.
    pub(crate) era: u64,
    /// How connections are opened, if there is TLS.
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) token: Option<Token>,
    plugin: Option<Arc<AuthLayer>>,
    headers: ExtraHeadersLayer,
    trust: Trust,
    identity: Option<Identity>,
    user: AuthInfo,
}

impl Credentials {
    /// Of a connection that was just described for the first time by these settings, out of these files.
    pub(crate) fn new(source: &Source, settings: Settings, files: Files) -> Result<Self, ConfigProblem> {
        let address = settings.address.clone();
        let valid = Arc::new(Valid::of(settings, None)?);
        if valid.trust == Trust::Anyone {
            tracing::warn!(
                of = %source,
                "insecure-skip-tls-verify is set: whoever answers at this address is believed and shown our credentials; name the server's certificate-authority instead"
            );
        }
        let kept = Kept { valid, files, doubted: false, complaint: None };
        Ok(Self { source: source.clone(), address, kept: Mutex::new(kept) })
    }

    /// What the files say now, or said when they last made sense.
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
                if !renewed.is_empty() || kept.complaint.is_some() {
                    let what = if renewed.is_empty() { "nothing" } else { &*renewed.join(", ") };
                    tracing::info!(of = %self.source, renewed = what, "credentials were read again; requests from now on use them, open watches go on");
                }
                (kept.valid, kept.complaint) = (Arc::new(next), None);
            }
            Err(problem) => {
                let error = ConfigError { source_of: Box::new(self.source.clone()), problem: Box::new(problem) };
                let complaint = error.sentence();
                if kept.complaint.as_ref() != Some(&complaint) {
                    tracing::warn!("{complaint}. What it said before stays in use.");
                    kept.complaint = Some(complaint);
                }
            }
        }
        kept.valid.clone()
    }

    /// What the last look found, without another one.
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
        // Who had credentials has not become anonymous: somebody is still writing.
        if next.is_anonymous() && !before.is_anonymous() {
            return Err(ConfigProblem::Anonymous);
        }
        Ok(next)
    }

    /// Reads everything again at the next use, changed or not. A file that was rewritten in place within one tick of the file system's
    /// clock looks the same.
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
            // A plugin has a token in hand, and would have to be run for another one.
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

    /// What is another than before, in words for people.
    fn differs_from(&self, before: &Self) -> Vec<&'static str> {
        let header = |valid: &Self| valid.token.as_ref().map(|token| token.header.clone());
        let plugin = |valid: &Self| valid.plugin.as_ref().map(Arc::as_ptr);
        let parts = [
            ("the token", header(self) != header(before)),
            ("the client certificate", self.identity != before.identity),
            ("the certificate authority", self.trust != before.trust),
            ("the user", plugin(self) != plugin(before)),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(what, _)| what).collect()
    }
}

/// Whether two users get their tokens in the same way.
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
            _ => "a header that it asks for cannot be sent".to_owned(),
        },
    }
}

/// A service that shows the credentials of the time with each request.
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
            // The request is not repeated here: that is its author's to decide. But the next one looks twice.
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
