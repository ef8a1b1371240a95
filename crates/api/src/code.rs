//! Error codes of drivers: number, name, and text form.
//!
//! The text form is written into `status.lastOperation.description`. Dashboards and Gardener parse it by counting brackets, so it
//! must not change. In the process an error has its [`Code`] as a value; [`CodedText::parse`] is used for texts that are stored in
//! objects.

use std::fmt;

/// A machine code. Numbers and names are those of gRPC, plus [`Code::Uninitialized`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// Success.
    Ok,
    /// The caller cancelled the call.
    Canceled,
    /// Not classified.
    Unknown,
    /// Invalid providerSpec, name or Secret.
    InvalidArgument,
    /// The deadline has passed.
    DeadlineExceeded,
    /// The VM does not exist.
    NotFound,
    /// A VM with that name and other parameters exists.
    AlreadyExists,
    /// The credentials lack permissions.
    PermissionDenied,
    /// A quota or the capacity is exhausted.
    ResourceExhausted,
    /// The state of the VM does not allow the call.
    FailedPrecondition,
    /// Another operation is in progress.
    Aborted,
    /// A size is out of range. From a status call: a Machine has several VMs.
    OutOfRange,
    /// The driver does not offer the call.
    Unimplemented,
    /// An invariant is violated.
    Internal,
    /// The API of the provider is unavailable.
    Unavailable,
    /// Unrecoverable data loss.
    DataLoss,
    /// Credentials are missing or invalid.
    Unauthenticated,
    /// The VM exists; its initialization is pending or failed.
    Uninitialized,
    /// A number of a newer protocol. Created by [`Code::from_number`] only, so it is never one of the above.
    Other(u32),
}

impl Code {
    /// All named codes, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
        Self::Uninitialized,
    ];

    /// Returns the code with this number.
    pub fn from_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|code| code.number() == number).unwrap_or(Self::Other(number))
    }

    /// Returns the code with this name, case-sensitively; [`Code::Unknown`] for any other text.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|code| code.parts().1 == name).unwrap_or(Self::Unknown)
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.parts().0
    }

    /// Returns number and name.
    fn parts(self) -> (u32, &'static str) {
        match self {
            Self::Ok => (0, "OK"),
            Self::Canceled => (1, "Canceled"),
            Self::Unknown => (2, "Unknown"),
            Self::InvalidArgument => (3, "InvalidArgument"),
            Self::DeadlineExceeded => (4, "DeadlineExceeded"),
            Self::NotFound => (5, "NotFound"),
            Self::AlreadyExists => (6, "AlreadyExists"),
            Self::PermissionDenied => (7, "PermissionDenied"),
            Self::ResourceExhausted => (8, "ResourceExhausted"),
            Self::FailedPrecondition => (9, "FailedPrecondition"),
            Self::Aborted => (10, "Aborted"),
            Self::OutOfRange => (11, "OutOfRange"),
            Self::Unimplemented => (12, "Unimplemented"),
            Self::Internal => (13, "Internal"),
            Self::Unavailable => (14, "Unavailable"),
            Self::DataLoss => (15, "DataLoss"),
            Self::Unauthenticated => (16, "Unauthenticated"),
            Self::Uninitialized => (17, "Uninitialized"),
            Self::Other(number) => (number, ""),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(number) => write!(f, "Code({number})"),
            named => f.write_str(named.parts().1),
        }
    }
}

/// A code and a message in their text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedText<'a> {
    /// The code.
    pub code: Code,
    /// The message.
    pub message: &'a str,
}

impl fmt::Display for CodedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine codes error: code = [{}] message = [{}]", self.code, self.message)
    }
}

impl<'a> CodedText<'a> {
    /// Parses a text. It must contain exactly two outermost pairs of brackets, which are code and message. Otherwise returns
    /// `None`, and the error is [`Code::Unknown`] with the whole text as its message.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut groups = Vec::new();
        let (mut depth, mut start) = (0_usize, 0);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'[' => {
                    if depth == 0 {
                        start = at + 1;
                    }
                    depth += 1;
                }
                b']' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        groups.push(text.get(start..at)?);
                    }
                }
                _ => {}
            }
        }
        match *groups {
            [code, message] => Some(Self { code: Code::from_name(code), message }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    /// Shows API-8.
    #[test]
    fn code_is_found_by_number_and_name() {
        for (number, code) in (0..).zip(Code::ALL) {
            assert_eq!(code.number(), number);
            assert_eq!(Code::from_number(number), code);
            assert_eq!(Code::from_name(&code.to_string()), code);
        }
        assert_eq!(Code::Ok.to_string(), "OK");
        assert_eq!(Code::from_number(18).to_string(), "Code(18)");
        assert_eq!(Code::from_name("notfound"), Code::Unknown);
        assert_eq!(Code::from_name("Code(18)"), Code::Unknown);
        assert_eq!(Code::from_name(""), Code::Unknown);
    }

    /// Shows API-8.
    #[test]
    fn text_form_is_that_of_mcm() {
        let text = CodedText { code: Code::ResourceExhausted, message: "no quota" }.to_string();
        assert_eq!(text, "machine codes error: code = [ResourceExhausted] message = [no quota]");
    }

    /// Shows API-8.
    #[rstest]
    #[case::plain("machine codes error: code = [NotFound] message = [gone]", Some((Code::NotFound, "gone")))]
    #[case::prefixed("Cloud provider message - machine codes error: code = [Internal] message = [x]", Some((Code::Internal, "x")))]
    #[case::nested("code = [Internal] message = [a [b] c]", Some((Code::Internal, "a [b] c")))]
    #[case::unmatched_opening("code = [Internal] message = [a [b]", None)]
    #[case::unmatched_closing("code = [Internal] message = [a ] b]", Some((Code::Internal, "a ")))]
    #[case::trailing_group("code = [Internal] message = [a] and [b]", None)]
    #[case::unrelated("took [3] of [4]", Some((Code::Unknown, "4")))]
    #[case::leading_closing("] code = [Internal] message = [a]", Some((Code::Internal, "a")))]
    #[case::empty("[] []", Some((Code::Unknown, "")))]
    #[case::one_group("code = [Internal]", None)]
    #[case::none("connection refused", None)]
    #[case::not_ascii("code = [Internal] message = [größer als 5 €]", Some((Code::Internal, "größer als 5 €")))]
    fn brackets_are_counted_the_way_the_reference_does(#[case] text: &str, #[case] expected: Option<(Code, &str)>) {
        assert_eq!(CodedText::parse(text), expected.map(|(code, message)| CodedText { code, message }));
    }

    proptest! {
        #[test]
        fn a_message_without_brackets_survives_its_text_form(number in 0u32..18, message in "[^\\[\\]]*") {
            let coded = CodedText { code: Code::from_number(number), message: &message };
            let text = coded.to_string();
            prop_assert_eq!(CodedText::parse(&text), Some(coded));
        }

        #[test]
        fn any_text_can_be_tried(text in any::<String>()) {
            let _ = CodedText::parse(&text);
        }
    }
}
