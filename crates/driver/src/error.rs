//! Errors of driver calls, and their text form in objects.
//!
//! In the process an error is typed: code, message, cause, and the VM or state found despite the failure. In the status of a
//! Machine it has the text form of MCM (`machine codes error: code = [..] message = [..]`), which other programs parse. Their
//! parser counts brackets, so an unbalanced bracket would make the text unparsable. Therefore unbalanced brackets in messages are
//! replaced by parentheses, and every error can be parsed from its text.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use api::{Code, CodedText};

use crate::Found;

/// A failed call. `Display` writes the text form without the cause.
#[derive(Clone, Debug)]
pub struct DriverError {
    code: Code,
    message: String,
    cause: Option<Arc<dyn Error + Send + Sync>>,
    last_known_state: Option<String>,
    found: Option<Box<Found>>,
}

/// When a failed call should be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// Transient failure (`Unknown`, `DeadlineExceeded`, `Aborted`, `Unavailable`): retry in a few seconds.
    Transient,
    /// A quota or the capacity of a zone is exhausted (`ResourceExhausted`): retry later, and use another pool.
    Exhausted,
    /// Any other failure: retries succeed only after a change by a user.
    Other,
}

/// The text is not a driver error in the text form of MCM.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse a driver error: expected two groups in brackets")]
pub struct Undecodable;

impl DriverError {
    /// Creates an error. The message is written into the status of the Machine, so it must not contain secrets.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: balanced(message.into()), cause: None, last_known_state: None, found: None }
    }

    /// Creates an error with code `InvalidArgument`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Creates an error with code `NotFound`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// Adds a cause. It is logged and not written into objects.
    #[must_use]
    pub fn because(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// Returns the error with code `Uninitialized`, because the VM exists and its initialization failed. `Canceled` and
    /// `DeadlineExceeded` are not changed.
    #[must_use]
    pub fn into_uninitialized(self) -> Self {
        match self.code {
            Code::Canceled | Code::DeadlineExceeded => self,
            _ => Self::new(Code::Uninitialized, self.message()).because(self),
        }
    }

    /// Adds the last known state for the next attempt.
    #[must_use]
    pub fn with_last_known_state(self, state: impl Into<String>) -> Self {
        Self { last_known_state: Some(state.into()), ..self }
    }

    /// Adds the VM that exists despite the error. Required for `Uninitialized`.
    #[must_use]
    pub fn with_found(self, found: Found) -> Self {
        Self { found: Some(Box::new(found)), ..self }
    }

    /// Returns the code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Returns the message for users.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the last known state for the next attempt.
    pub fn last_known_state(&self) -> Option<&str> {
        self.last_known_state.as_deref()
    }

    /// Returns the VM that exists despite the error.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_deref()
    }

    /// Returns when the call should be retried.
    pub fn retry_class(&self) -> RetryClass {
        match self.code {
            Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable => RetryClass::Transient,
            Code::ResourceExhausted => RetryClass::Exhausted,
            _ => RetryClass::Other,
        }
    }

    /// Parses an error from its text form, which may be part of a longer text. An unknown code becomes `Unknown`.
    pub fn from_text(text: &str) -> Result<Self, Undecodable> {
        let CodedText { code, message } = CodedText::parse(text).ok_or(Undecodable)?;
        Ok(Self::new(code, message))
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        CodedText { code: self.code, message: &self.message }.fmt(f)
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// Replaces unbalanced brackets by parentheses.
fn balanced(message: String) -> String {
    let mut open = Vec::new();
    let mut unmatched = Vec::new();
    for (at, c) in message.char_indices() {
        match c {
            '[' => open.push(at),
            ']' if open.pop().is_none() => unmatched.push(at),
            _ => {}
        }
    }
    if open.is_empty() && unmatched.is_empty() {
        return message;
    }
    // Both lists are in text order, so one pass is sufficient. The cost must be linear for hostile texts.
    let (mut open, mut unmatched) = (open.into_iter().peekable(), unmatched.into_iter().peekable());
    message
        .char_indices()
        .map(|(at, c)| match c {
            '[' if open.next_if_eq(&at).is_some() => '(',
            ']' if unmatched.next_if_eq(&at).is_some() => ')',
            _ => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Shows DRV-5.
    #[test]
    fn text_form_is_that_of_mcm() {
        let error = DriverError::new(Code::ResourceExhausted, "no capacity in zone [a]").because(std::fmt::Error);
        assert_eq!(
            error.to_string(),
            "machine codes error: code = [ResourceExhausted] message = [no capacity in zone [a]]"
        );
        assert!(error.source().is_some());
    }

    /// Shows MC-W61.
    #[rstest]
    #[case("a [unmatched", "a (unmatched")]
    #[case("a unmatched] one", "a unmatched) one")]
    #[case("[kept] and [lost", "[kept] and (lost")]
    #[case("][", ")(")]
    #[case("[[deep] half", "([deep] half")]
    fn unbalanced_bracket_becomes_a_parenthesis(#[case] given: &str, #[case] kept: &str) {
        assert_eq!(DriverError::invalid(given).message(), kept);
    }

    /// Shows LIM-16.
    #[test]
    fn a_million_unbalanced_brackets_are_replaced_in_linear_time() {
        let error = DriverError::invalid("[".repeat(1 << 20));
        assert!(error.message().chars().all(|c| c == '('));
    }

    /// Shows DRV-6.
    #[rstest]
    #[case(Code::Unknown, RetryClass::Transient)]
    #[case(Code::DeadlineExceeded, RetryClass::Transient)]
    #[case(Code::Aborted, RetryClass::Transient)]
    #[case(Code::Unavailable, RetryClass::Transient)]
    #[case(Code::ResourceExhausted, RetryClass::Exhausted)]
    #[case(Code::Canceled, RetryClass::Other)]
    #[case(Code::InvalidArgument, RetryClass::Other)]
    #[case(Code::Internal, RetryClass::Other)]
    fn retry_class_depends_on_the_code(#[case] code: Code, #[case] class: RetryClass) {
        assert_eq!(DriverError::new(code, "").retry_class(), class);
    }

    /// Shows DRV-5.
    #[test]
    fn text_in_another_form_is_rejected() {
        assert_eq!(DriverError::from_text("connection refused").unwrap_err(), Undecodable);
        let read =
            DriverError::from_text("Cloud provider message - machine codes error: code = [NotFound] message = [gone]");
        assert_eq!(read.unwrap().code(), Code::NotFound);
    }

    proptest! {
        /// Shows DRV-5, MC-W61.
        #[test]
        fn error_can_be_parsed_from_its_text(message in r"[\[\]a-z é]{0,24}") {
            let error = DriverError::new(Code::Aborted, message);
            let read = DriverError::from_text(&error.to_string()).unwrap();
            prop_assert_eq!(read.code(), Code::Aborted);
            prop_assert_eq!(read.message(), error.message());
        }
    }
}
