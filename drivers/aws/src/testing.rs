//! A transport with scripted replies, one per request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use driver::Call;
use driver_common::http::{HttpError, Transport};
use http::{Request, Response};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::ec2::Aws;
use crate::settings::Settings;

/// The reply to a request.
pub(crate) enum Reply {
    /// A response with this status and body.
    Answer(u16, String),
    /// A broken connection.
    Broken,
}

/// A request: method and URL, headers, form parameters.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) form: BTreeMap<String, String>,
}

/// Returns its replies in order and records the requests.
#[derive(Default)]
pub(crate) struct FakeTransport {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<SentRequest>>,
}

impl FakeTransport {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn asked(&self) -> Vec<SentRequest> {
        self.asked.lock().clone()
    }

    pub(crate) fn aws(self: &Arc<Self>, settings: Settings, clock: driver_common::Clock) -> Aws {
        Aws::new(self.clone(), settings, clock, Arc::new(|| 0.0))
    }
}

#[async_trait]
impl Transport for FakeTransport {
    async fn send(&self, _call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
        let headers = request.headers().iter();
        self.asked.lock().push(SentRequest {
            url: format!("{} {}", request.method(), request.uri()),
            headers: headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect(),
            form: pairs.map(|(key, value)| (decoded(key), decoded(value))).collect(),
        });
        match self.replies.lock().pop_front() {
            Some(Reply::Answer(status, body)) => {
                Ok(Response::builder().status(status).body(Bytes::from(body)).unwrap())
            }
            Some(Reply::Broken) | None => {
                Err(HttpError::Broken { host: "ec2.test".into(), reason: "no reply is left".into() })
            }
        }
    }
}
