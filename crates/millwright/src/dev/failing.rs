//! Fault injection into VM creation: `--fail CODE=N` and `--fail CODE=P%`.

use std::str::FromStr;

use driver::{Code, Method};
use driver_virtual::{Fault, Script};

/// Which create calls fail, and with which code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    code: Code,
    which: Which,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// The next calls.
    Next(u64),
    /// A percentage of the calls.
    Percent(u8),
}

/// Why a text is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error(
        "must be CODE=N for the next N create calls, or CODE=P% for a percentage of them, such as Unavailable=3 or ResourceExhausted=20%"
    )]
    Form,
    #[error("the code must be one of {}", codes())]
    Code,
    #[error("the number of create calls must be at least 1")]
    Number,
    #[error("the percentage must be from 1% to 100%")]
    Percent,
}

impl FromStr for Failing {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let (name, which) = text.split_once('=').ok_or(Malformed::Form)?;
        let code = failures().find(|code| code.to_string() == name).ok_or(Malformed::Code)?;
        let which = if let Some(percent) = which.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            Which::Percent(percent.ok_or(Malformed::Percent)?)
        } else {
            let number = which.parse().map_err(|_| Malformed::Form)?;
            Which::Next(Some(number).filter(|number| *number > 0).ok_or(Malformed::Number)?)
        };
        Ok(Self { code, which })
    }
}

impl Failing {
    /// Returns the script for the cloud.
    pub(crate) fn script(self) -> Script {
        let script = Script::always(Fault::Fail(self.code)).on(Method::Create);
        match self.which {
            Which::Next(number) => script.times(number),
            Which::Percent(percent) => script.with_chance(f64::from(percent) / 100.0),
        }
    }
}

fn failures() -> impl Iterator<Item = Code> {
    Code::ALL.into_iter().filter(|code| *code != Code::Ok)
}

fn codes() -> String {
    failures().map(|code| code.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows OPR-17.
    #[rstest]
    #[case("Unavailable=1", Script::next(Method::Create, Fault::Fail(Code::Unavailable)))]
    #[case("Internal=3", Script::next(Method::Create, Fault::Fail(Code::Internal)).times(3))]
    #[case("ResourceExhausted=20%", Script::always(Fault::Fail(Code::ResourceExhausted)).on(Method::Create).with_chance(0.2))]
    #[case("Unknown=100%", Script::always(Fault::Fail(Code::Unknown)).on(Method::Create))]
    fn next_creates_or_a_percentage_of_them_fail(#[case] text: &str, #[case] script: Script) {
        assert_eq!(text.parse().map(Failing::script), Ok(script));
    }

    #[rstest]
    #[case("", Malformed::Form)]
    #[case("Unavailable", Malformed::Form)]
    #[case("Unavailable=", Malformed::Form)]
    #[case("Unavailable=-1", Malformed::Form)]
    #[case("Unavailable=often", Malformed::Form)]
    #[case("unavailable=1", Malformed::Code)]
    #[case("OK=1", Malformed::Code)]
    #[case("=1", Malformed::Code)]
    #[case("Unavailable=0", Malformed::Number)]
    #[case("Unavailable=0%", Malformed::Percent)]
    #[case("Unavailable=101%", Malformed::Percent)]
    #[case("Unavailable=999%", Malformed::Percent)]
    #[case("Unavailable=%", Malformed::Percent)]
    fn malformed_fault_is_rejected_with_a_fix(#[case] text: &str, #[case] why: Malformed) {
        assert_eq!(text.parse::<Failing>(), Err(why));
    }
}
