//! Why a call failed, in a form that survives being written into an object.
//!
//! Inside the process an error is typed: code, message, cause, and what was learned in spite of the failure. Outside it is the
//! reference's text (`machine codes error: code = [..] message = [..]`), which ends up in a machine's status and is parsed by
//! others. Their parser counts brackets, so a message with a stray one would make the whole text unreadable to them;
//! brackets without a partner are therefore turned into parentheses when the error is made, and every error of ours reads
//! back as what it was.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use api::{Code, CodedText};

use crate::Found;

/// A failed call. Its `Display` is the text form others parse; the cause is never part of it.
#[derive(Clone, Debug)]
pub struct DriverError {
    code: Code,
    message: String,
    cause: Option<Arc<dyn Error + Send + Sync>>,
    last_known_state: Option<String>,
    found: Option<Box<Found>>,
}

/// How soon it makes sense to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryClass {
    /// The cloud failed (`Unknown`, `DeadlineExceeded`, `Aborted`, `Unavailable`): again in a few seconds.
    Transient,
    /// A quota or a zone is full (`ResourceExhausted`): only others can make room, so wait, and let another pool try.
    Exhausted,
    /// Everything else needs someone to change something; trying again is only a way of noticing that they have.
    Other,
}

/// A text that is not an error in the reference's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to read a driver's error: the text does not hold exactly two groups in brackets")]
pub struct Undecodable;

impl DriverError {
    /// An error with this code. The message is for operators: it ends up in the machine's status, so it must hold no secret.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: paired(message.into()), cause: None, last_known_state: None, found: None }
    }

    /// What is wrong with the request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// There is no such VM.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The same error with the error that led to it; for logs, never for objects.
    #[must_use]
    pub fn because(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// What failed was the initialisation of a VM that exists, unless the call has ended: then that is what is told.
    #[must_use]
    pub fn into_uninitialized(self) -> Self {
        match self.code {
            Code::Canceled | Code::DeadlineExceeded => self,
            _ => Self::new(Code::Uninitialized, self.message()).because(self),
        }
    }

    /// The same error with a state to be kept for the next attempt.
    #[must_use]
    pub fn with_last_known_state(self, state: impl Into<String>) -> Self {
        Self { last_known_state: Some(state.into()), ..self }
    }

    /// The same error with the VM that was found all the same. `Uninitialized` must carry one.
    #[must_use]
    pub fn with_found(self, found: Found) -> Self {
        Self { found: Some(Box::new(found)), ..self }
    }

    /// What kind of failure it was.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence for the operator.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the driver wants to be shown again at the next attempt.
    pub fn last_known_state(&self) -> Option<&str> {
        self.last_known_state.as_deref()
    }

    /// The VM that exists although the call failed.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_deref()
    }

    /// How soon it makes sense to try again.
    pub fn retry_class(&self) -> RetryClass {
        match self.code {
            Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable => RetryClass::Transient,
            Code::ResourceExhausted => RetryClass::Exhausted,
            _ => RetryClass::Other,
        }
    }

    /// Reads an error back from its text form, also from the middle of a longer text. A code nobody knows is `Unknown`.
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

/// The message with every bracket that has no partner turned into a parenthesis.
fn paired(message: String) -> String {
    let mut open = Vec::new();
    let mut stray = Vec::new();
    for (at, c) in message.char_indices() {
        match c {
            '[' => open.push(at),
            ']' if open.pop().is_none() => stray.push(at),
            _ => {}
        }
    }
    if open.is_empty() && stray.is_empty() {
        return message;
    }
    // Both are in the order of the text, so one walk finds them: a hostile text of brackets must not cost the square of its length.
    let (mut open, mut stray) = (open.into_iter().peekable(), stray.into_iter().peekable());
    message
        .char_indices()
        .map(|(at, c)| match c {
            '[' if open.next_if_eq(&at).is_some() => '(',
            ']' if stray.next_if_eq(&at).is_some() => ')',
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
    fn the_text_is_the_one_others_parse() {
        let error = DriverError::new(Code::ResourceExhausted, "no capacity in zone [a]").because(std::fmt::Error);
        assert_eq!(
            error.to_string(),
            "machine codes error: code = [ResourceExhausted] message = [no capacity in zone [a]]"
        );
        assert!(error.source().is_some());
    }

    /// Shows MC-W61.
    #[rstest]
    #[case("a [stray", "a (stray")]
    #[case("a stray] one", "a stray) one")]
    #[case("[kept] and [lost", "[kept] and (lost")]
    #[case("][", ")(")]
    #[case("[[deep] half", "([deep] half")]
    fn a_bracket_without_partner_becomes_a_parenthesis(#[case] given: &str, #[case] kept: &str) {
        assert_eq!(DriverError::invalid(given).message(), kept);
    }

    /// Shows LIM-16.
    #[test]
    fn a_million_brackets_without_partners_are_no_work() {
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
    fn the_code_decides_how_soon_to_try_again(#[case] code: Code, #[case] class: RetryClass) {
        assert_eq!(DriverError::new(code, "").retry_class(), class);
    }

    /// Shows DRV-5.
    #[test]
    fn a_text_in_another_form_is_told_apart() {
        assert_eq!(DriverError::from_text("connection refused").unwrap_err(), Undecodable);
        let read =
            DriverError::from_text("Cloud provider message - machine codes error: code = [NotFound] message = [gone]");
        assert_eq!(read.unwrap().code(), Code::NotFound);
    }

    proptest! {
        /// Shows DRV-5, MC-W61.
        #[test]
        fn every_error_of_ours_reads_back_as_what_it_was(message in r"[\[\]a-z é]{0,24}") {
            let error = DriverError::new(Code::Aborted, message);
            let read = DriverError::from_text(&error.to_string()).unwrap();
            prop_assert_eq!(read.code(), Code::Aborted);
            prop_assert_eq!(read.message(), error.message());
        }
    }
}
