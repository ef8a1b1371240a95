//! What a cloud's error codes mean, as tables.
//!
//! A driver's code decides what happens to a machine next, so how a cloud's code becomes one is written down as data: one row
//! each, one test each. A code may begin or end with `*`. Rows that are spelt out win over those with a star; a code that no row
//! knows is the cloud's own affair, and `Internal`.

use driver::{Code, DriverError};

use crate::redaction;

/// One row: a code of the cloud and what it means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the cloud calls it; `Invalid*` stands for all that begin so, `*.NotFound` for all that end so.
    pub cloud: &'static str,
    /// The code of a create that failed with it.
    pub create: Code,
    /// The code of any other call that failed with it.
    pub elsewhere: Code,
    /// What it says about the account and its zones.
    pub meaning: Meaning,
    /// What an operator can do; empty if there is nothing to say.
    pub advice: &'static str,
}

/// What an error says beyond the call that it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The account asks too often.
    Throttled,
    /// The zone has no such VM to give just now.
    NoCapacity,
    /// The account has used up what it may have of this.
    Quota(&'static str),
    /// Nothing about others.
    ThisCall,
}

/// When a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum During {
    /// While a VM was being made.
    Create,
    /// At any other time.
    Elsewhere,
}

/// The row for a code of the cloud.
pub fn row<'a>(table: &'a [Row], code: &str) -> Option<&'a Row> {
    let exact = table.iter().find(|row| row.cloud == code);
    exact.or_else(|| table.iter().find(|row| matches(row.cloud, code)))
}

/// What a code of the cloud means beyond the call that it ended.
pub fn meaning(table: &[Row], code: &str) -> Meaning {
    row(table, code).map_or(Meaning::ThisCall, |row| row.meaning)
}

/// A refusal as an error: the driver's code, the cloud's words without `hidden`, and what to do.
pub fn error(table: &[Row], code: &str, message: &str, during: During, hidden: &[&str]) -> DriverError {
    titled(table, code, code, message, during, hidden)
}

/// The same with another title than the code by which the table knows it.
pub fn titled(table: &[Row], code: &str, title: &str, message: &str, during: During, hidden: &[&str]) -> DriverError {
    let (cloud, said) = (redaction::message(title, hidden), redaction::message(message, hidden));
    let Some(row) = row(table, code) else { return DriverError::new(Code::Internal, format!("{cloud}: {said}")) };
    let of = match row.meaning {
        Meaning::Quota(of) => format!(" (quota: {of})"),
        _ => String::new(),
    };
    let advice = if row.advice.is_empty() { String::new() } else { format!("; {}", row.advice) };
    DriverError::new(row.code(during), format!("{cloud}: {said}{of}{advice}"))
}

impl Row {
    /// The driver's code, depending on when it happened.
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
    fn a_row_that_is_spelt_out_wins_over_one_with_a_star(#[case] cloud: &str, #[case] code: Option<Code>) {
        assert_eq!(row(&TABLE, cloud).map(|row| row.code(During::Create)), code);
        assert!(row(&TABLE, cloud).is_none_or(|row| row.code(During::Elsewhere) == Code::Internal));
    }
}
