//! A cloud in memory that answers by a script, one line a request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cloud::http::{HttpError, Transport};
use driver::Call;
use http::{Request, Response};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;

use crate::ec2::Aws;
use crate::settings::Settings;

/// What a line of the script does.
pub(crate) enum Line {
    /// Answers with this status and body.
    Answer(u16, String),
    /// Breaks the connection.
    Broken,
}

/// What was asked: method, address, headers, form.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) form: BTreeMap<String, String>,
}

/// Answers by its script and remembers what it was asked.
#[derive(Default)]
pub(crate) struct Scripted {
    script: Mutex<VecDeque<Line>>,
    asked: Mutex<Vec<Asked>>,
}

impl Scripted {
    pub(crate) fn new(script: impl IntoIterator<Item = Line>) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script.into_iter().collect()), ..Self::default() })
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }

    pub(crate) fn aws(self: &Arc<Self>, settings: Settings, clock: crate::Clock) -> Aws {
        Aws::new(self.clone(), settings, clock, Arc::new(|| 0.0))
    }
}

#[async_trait]
impl Transport for Scripted {
    async fn send(&self, _call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
        let headers = request.headers().iter();
        self.asked.lock().push(Asked {
            url: format!("{} {}", request.method(), request.uri()),
            headers: headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect(),
            form: pairs.map(|(key, value)| (decoded(key), decoded(value))).collect(),
        });
        match self.script.lock().pop_front() {
            Some(Line::Answer(status, body)) => Ok(Response::builder().status(status).body(Bytes::from(body)).unwrap()),
            Some(Line::Broken) | None => {
                Err(HttpError::Broken { host: "ec2.test".into(), reason: "the script ends here".into() })
            }
        }
    }
}
