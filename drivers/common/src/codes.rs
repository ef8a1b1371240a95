//! Tables that map the error codes of a cloud to driver codes.
//!
//! The driver code decides what happens to a machine next, so the mapping is data: one row and one test per code. A
//! code may begin or end with `*`. Exact rows take precedence over rows with a star. An unknown code is `Internal`.

use driver::{Code, DriverError};

use crate::redaction;

/// One row: an error code of the cloud and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The cloud's code; `Invalid*` matches all codes with that prefix, `*.NotFound` all with that suffix.
    pub cloud: &'static str,
    /// The driver code if a create fails with it.
    pub create: Code,
    /// The driver code if any other call fails with it.
    pub elsewhere: Code,
    /// What it means for the account and its zones.
    pub meaning: Meaning,
    /// Advice for the operator; may be empty.
    pub advice: &'static str,
}

/// What an error means beyond the failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The account is throttled.
    Throttled,
    /// The zone has no capacity for such a VM.
    NoCapacity,
    /// The account has reached this quota.
    Quota(&'static str),
    /// Nothing beyond this call.
    ThisCall,
}

/// The kind of call in which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// CreateMachine.
    Create,
    /// Any other call.
    Elsewhere,
}

/// Returns the row for a code of the cloud.
pub fn row<'a>(table: &'a [Row], code: &str) -> Option<&'a Row> {
    let exact = table.iter().find(|row| row.cloud == code);
    exact.or_else(|| table.iter().find(|row| matches(row.cloud, code)))
}

/// Returns what a code of the cloud means beyond the failed call.
pub fn meaning(table: &[Row], code: &str) -> Meaning {
    row(table, code).map_or(Meaning::ThisCall, |row| row.meaning)
}

/// Converts a cloud error to a driver error: the driver code, the cloud's message without `hidden`, and the advice.
pub fn error(table: &[Row], code: &str, message: &str, during: During, hidden: &[&str]) -> DriverError {
    titled(table, code, code, message, during, hidden)
}

/// Like [`error`], with a title that differs from the code in the table.
pub fn titled(table: &[Row], code: &str, title: &str, message: &str, during: During, hidden: &[&str]) -> DriverError {
    let (cloud, text) = (redaction::message(title, hidden), redaction::message(message, hidden));
    let Some(row) = row(table, code) else { return DriverError::new(Code::Internal, format!("{cloud}: {text}")) };
    let of = match row.meaning {
        Meaning::Quota(of) => format!(" (quota: {of})"),
        _ => String::new(),
    };
    let advice = if row.advice.is_empty() { String::new() } else { format!("; {}", row.advice) };
    DriverError::new(row.code(during), format!("{cloud}: {text}{of}{advice}"))
}

impl Row {
    /// Returns the driver code for this kind of call.
    pub fn code(&self, during: During) -> Code {
        match during {
            During::Create => self.create,
            During::Elsewhere => self.elsewhere,
        }
    }
}

fn matches(pattern: &str, code: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == code,
        Some((beginning, end)) => {
            code.len() >= beginning.len() + end.len() && code.starts_with(beginning) && code.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const fn same(cloud: &'static str, code: Code) -> Row {
        Row { cloud, create: code, elsewhere: Code::Internal, meaning: Meaning::ThisCall, advice: "" }
    }

    const TABLE: [Row; 4] = [
        same("Invalid*.NotFound", Code::InvalidArgument),
        same("InvalidInstanceID.NotFound", Code::NotFound),
        same("Throttling", Code::Unavailable),
        same("Client.*", Code::Aborted),
    ];

    #[rstest]
    #[case("Throttling", Some(Code::Unavailable))]
    #[case("InvalidInstanceID.NotFound", Some(Code::NotFound))]
    #[case("InvalidSubnetID.NotFound", Some(Code::InvalidArgument))]
    #[case("Client.Whatever", Some(Code::Aborted))]
    #[case("Invalid.NotFound", Some(Code::InvalidArgument))]
    #[case("InvalidNotFound", None)]
    #[case("ThrottlingException", None)]
    #[case("", None)]
    fn exact_row_takes_precedence_over_a_pattern(#[case] cloud: &str, #[case] code: Option<Code>) {
        assert_eq!(row(&TABLE, cloud).map(|row| row.code(During::Create)), code);
        assert!(row(&TABLE, cloud).is_none_or(|row| row.code(During::Elsewhere) == Code::Internal));
    }
}
