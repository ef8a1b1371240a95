//! What befalls a request, and which.

use std::fmt;
use std::time::Duration;

use crate::parameters::{Parameters, pairs};

/// A request, as rules see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body, as text.
    pub body: String,
    /// How many requests came before it.
    pub number: usize,
}

impl Asked {
    /// The parameters, where the body is a form as in AWS' query protocol.
    pub fn parameters(&self) -> Parameters {
        Parameters::of(&pairs(&self.body))
    }

    /// AWS' `Action`; empty if there is none.
    pub fn action(&self) -> String {
        self.parameters().get("Action").unwrap_or_default().to_owned()
    }
}

/// An answer that the cloud did not give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
    /// After how many seconds to ask again, a header.
    pub retry_after: Option<u32>,
}

impl Instead {
    /// An error as OpenStack's Nova and Cinder write it.
    pub fn openstack(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "computeFault": { "code": status, "message": message } }).to_string();
        Self { status, body, retry_after: None }
    }

    /// An answer that no service gave: that of a gateway in front of it.
    pub fn gateway(status: u16) -> Self {
        Self { status, body: format!("<html>{status}</html>"), retry_after: None }
    }

    /// The same, with the time after which to ask again.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// An error as EC2 writes it.
    pub fn ec2(status: u16, code: &str) -> Self {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code><Message>by script</Message>\
             </Error></Errors><RequestID>0</RequestID></Response>"
        );
        Self { status, body, retry_after: None }
    }

    /// The response of EC2 to a throttled request.
    pub fn throttled() -> Self {
        Self::ec2(503, "RequestLimitExceeded")
    }
}

/// What befalls a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It arrives this much later.
    Delay(Duration),
    /// The connection is reset before the cloud gets the request.
    ResetBefore,
    /// The cloud does it, and the connection is reset before the answer arrives.
    ResetAfter,
    /// The cloud does not hear of it, and this is the answer.
    AnsweredBefore(Instead),
    /// The cloud does it, and this is the answer.
    AnsweredAfter(Instead),
    /// The cloud does it, and half of the answer arrives as if it were the whole.
    CutShort,
    /// The cloud does not get the request, and there is no response.
    HangBefore,
    /// The request takes effect, and there is no response.
    HangAfter,
}

/// Which requests a fault befalls, and how often.
pub struct Rule {
    matches: Box<dyn FnMut(&Asked) -> bool + Send>,
    fault: Fault,
    left: Option<u32>,
}

impl Rule {
    /// The next request of which this is true.
    pub fn next(fault: Fault, matches: impl FnMut(&Asked) -> bool + Send + 'static) -> Self {
        Self { matches: Box::new(matches), fault, left: Some(1) }
    }

    /// The next request of an action of AWS.
    pub fn action(action: &str, fault: Fault) -> Self {
        let action = action.to_owned();
        Self::next(fault, move |asked| asked.action() == action)
    }

    /// The same, so many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { left: Some(times), ..self }
    }

    /// The same, until the rules are cleared.
    #[must_use]
    pub fn always(self) -> Self {
        Self { left: None, ..self }
    }

    /// What befalls this request, if anything does. Asking counts.
    pub fn strikes(&mut self, asked: &Asked) -> Option<Fault> {
        if self.left == Some(0) || !(self.matches)(asked) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(self.fault.clone())
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("fault", &self.fault).field("left", &self.left).finish_non_exhaustive()
    }
}
