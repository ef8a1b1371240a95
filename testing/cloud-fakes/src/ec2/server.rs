//! The cloud on loopback.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};

use super::calls::Request;
use super::cloud::Cloud;
use super::settings::Settings;
use crate::loopback::{Answered, Loopback, Shared};

/// A cloud that answers on loopback until this value is dropped. It follows tokio's clock.
#[derive(Debug)]
pub struct Ec2 {
    server: Loopback,
    shared: Arc<Shared<Cloud>>,
}

impl Ec2 {
    /// Starts an empty cloud.
    pub async fn start(settings: Settings) -> io::Result<Self> {
        let shared = Shared::new(Cloud::new(settings));
        let attending = shared.clone();
        let server = Loopback::start(move |request| answer(request, attending.clone())).await?;
        Ok(Self { server, shared })
    }

    /// Where it is: `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// The port of the loopback address it listens on.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// Looks at the cloud, or changes it; what is handed in is the time on its clock.
    pub fn with<T>(&self, look: impl FnOnce(&mut Cloud, Duration) -> T) -> T {
        self.shared.with(look)
    }
}

async fn answer(request: hyper::Request<Incoming>, shared: Arc<Shared<Cloud>>) -> Answered {
    let header =
        |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (authorization, token) = (header(AUTHORIZATION), header(HeaderName::from_static("x-amz-security-token")));
    let query = request.uri().query().unwrap_or_default().to_owned();
    let Ok(body) = request.into_body().collect().await else { return std::future::pending().await };
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let form = if query.is_empty() { body } else { format!("{query}&{body}") };
    let asked = Request::read(&form, authorization.as_deref(), token.as_deref());
    let Some(answer) = shared.with(|cloud, now| cloud.answer(now, asked)) else { return std::future::pending().await };
    let mut response = hyper::Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = hyper::StatusCode::from_u16(answer.status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("text/xml;charset=UTF-8"));
    Ok(response)
}
