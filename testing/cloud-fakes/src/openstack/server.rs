//! The cloud on loopback.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};

use super::answer::Answer;
use super::cloud::Cloud;
use super::request::Request;
use super::settings::Settings;
use crate::loopback::{Answered, Loopback, Shared};

/// A cloud that answers on loopback until this value is dropped. It follows tokio's clock.
#[derive(Debug)]
pub struct Stack {
    server: Loopback,
    shared: Arc<Shared<Cloud>>,
}

impl Stack {
    /// Starts an empty cloud.
    pub async fn start(settings: Settings) -> io::Result<Self> {
        let shared = Shared::new(Cloud::new(settings));
        let attending = shared.clone();
        let server = Loopback::start(move |request| answer(request, attending.clone())).await?;
        Ok(Self { server, shared })
    }

    /// The address of its Keystone.
    pub fn auth_url(&self) -> String {
        format!("{}/identity/v3", self.server.endpoint())
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
    let (head, body) = request.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let Ok(body) = body.collect().await else { return std::future::pending().await };
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let host = header(HOST.as_str()).unwrap_or_default();
    let asked = Request::read(head.method.as_str(), &path, header("x-auth-token"), host, &body.to_bytes());
    let Answer { status, body, subject } = shared.with(|cloud, now| cloud.answer(now, &asked));
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let mut response = hyper::Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(token) = subject.and_then(|token| HeaderValue::from_str(&token).ok()) {
        response.headers_mut().insert("x-subject-token", token);
    }
    Ok(response)
}
