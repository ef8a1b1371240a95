//! What is answered.

use super::xml::{Element, node, text};

/// An answer, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The XML.
    pub body: String,
}

/// An action that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// AWS' code, such as `InsufficientInstanceCapacity`.
    pub code: String,
    /// A sentence.
    pub message: String,
}

impl Refusal {
    /// With the HTTP status that most errors have.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { status: 400, code: code.to_owned(), message: message.into() }
    }

    /// With another HTTP status.
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

/// Which of the two services answers; they write their errors differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Ec2,
    Sts,
}

impl Service {
    fn namespace(self) -> &'static str {
        match self {
            Self::Ec2 => "http://ec2.amazonaws.com/doc/2016-11-15/",
            Self::Sts => "https://sts.amazonaws.com/doc/2011-06-15/",
        }
    }

    pub(super) fn good(self, action: &str, number: usize, inner: Vec<Element>) -> Answer {
        let inner = match self {
            Self::Ec2 => [vec![text("requestId", request_id(number))], inner].concat(),
            Self::Sts => [inner, vec![node("ResponseMetadata", vec![text("RequestId", request_id(number))])]].concat(),
        };
        Answer { status: 200, body: document(&node(&format!("{action}Response"), inner), Some(self.namespace())) }
    }

    pub(super) fn refused(self, refusal: &Refusal, number: usize) -> Answer {
        let (code, message) = (text("Code", &refusal.code), text("Message", &refusal.message));
        let body = match self {
            Self::Ec2 => {
                let errors = node("Errors", vec![node("Error", vec![code, message])]);
                let whole = node("Response", vec![errors, text("RequestID", request_id(number))]);
                document(&whole, None)
            }
            Self::Sts => {
                let error = node("Error", vec![text("Type", "Sender"), code, message]);
                let whole = node("ErrorResponse", vec![error, text("RequestId", request_id(number))]);
                document(&whole, Some(self.namespace()))
            }
        };
        Answer { status: refusal.status, body }
    }
}

fn document(root: &Element, namespace: Option<&str>) -> String {
    let mut text = String::new();
    root.write(&mut text);
    if let Some(namespace) = namespace {
        text = text.replacen('>', &format!(" xmlns=\"{namespace}\">"), 1);
    }
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{text}")
}

fn request_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}
