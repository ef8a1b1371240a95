//! The parameters of a request, read from its query.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::failure::Failure;
use crate::schema::Cause;

/// The parameters by name, decoded. Later ones win; empty ones are as good as missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    values: BTreeMap<String, String>,
}

/// How the resourceVersion of a list is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// This state or a later one.
    NotOlderThan,
    /// Exactly this state.
    Exact,
}

impl Query {
    /// Reads a raw query string.
    pub(crate) fn parse(raw: &str) -> Self {
        let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name), decode(value))
        });
        Self { values: pairs.filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// A parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// A parameter that is yes or no; `None` if it is not given.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|v| matches!(v, "true" | "1" | "True" | "TRUE" | "t" | "T"))
    }

    /// A parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text
            .parse()
            .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?;
        Ok(Some(number))
    }

    /// Whether the request only asks what would happen.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.text("dryRun") == Some("All")
    }

    /// The resourceVersion as a number, 0 if it is not given; a complaint if it is no number.
    pub(crate) fn version(&self) -> Result<u64, String> {
        let Some(text) = self.text("resourceVersion") else { return Ok(0) };
        let complaint = |_| {
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax")
        };
        text.parse().map_err(complaint)
    }

    /// Refuses a trial that nobody knows: it must not be taken for the real thing.
    pub(crate) fn check_dry_run(&self, options: &str) -> Result<(), Failure> {
        match self.text("dryRun") {
            None | Some("All") => Ok(()),
            Some(other) => {
                let cause = Cause::unsupported("dryRun", &Value::from(vec![other]), &[Value::from("All")]);
                Err(Failure::invalid_options(options, &[cause]))
            }
        }
    }

    /// Refuses a wish about unknown fields that nobody knows.
    pub(crate) fn check_field_validation(&self, options: &str) -> Result<(), Failure> {
        match self.text("fieldValidation") {
            None | Some("Ignore" | "Strict" | "Warn") => Ok(()),
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"].map(Value::from);
                let cause = Cause::unsupported("fieldValidation", &Value::from(other), &known);
                Err(Failure::invalid_options(options, &[cause]))
            }
        }
    }

    /// How the resourceVersion is meant, if it is said; refuses combinations that mean nothing.
    pub(crate) fn version_match(&self, watch: bool) -> Result<Option<VersionMatch>, Failure> {
        let initial = self.flag("sendInitialEvents");
        let refuse = |cause| Err(Failure::invalid_options("ListOptions", &[cause]));
        let forbid = |field: &str, why: &str| refuse(Cause::forbidden(field, why));
        let version = self.text("resourceVersion").unwrap_or_default();
        let wanted = match self.text("resourceVersionMatch") {
            None => None,
            Some("NotOlderThan") => Some(VersionMatch::NotOlderThan),
            Some("Exact") => Some(VersionMatch::Exact),
            Some(other) => {
                return refuse(Cause::unsupported(
                    "resourceVersionMatch",
                    &Value::from(other),
                    &["Exact", "NotOlderThan", ""].map(Value::from),
                ));
            }
        };
        match (watch, initial, wanted) {
            (false, Some(_), _) => forbid("sendInitialEvents", "sendInitialEvents is forbidden for list"),
            (true, Some(_), None | Some(VersionMatch::Exact)) => forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (true, None, Some(_)) => forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
            (false, None, Some(_)) if version.is_empty() => {
                forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
            }
            (false, None, Some(_)) if self.text("continue").is_some() => {
                forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            }
            (false, None, Some(VersionMatch::Exact)) if version == "0" => {
                forbid("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
            }
            _ => Ok(wanted),
        }
    }
}

/// Undoes percent-encoding and `+`. Broken escapes stay as they are.
pub(crate) fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn parameters_are_decoded_and_empty_ones_are_missing() {
        let query = Query::parse("&labelSelector=a%3Db%2Cc+in+%28d%29&limit=5&continue=&pretty");
        assert_eq!(query.text("labelSelector"), Some("a=b,c in (d)"));
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.text("continue"), None);
        assert_eq!(query.text("pretty"), None);
    }

    #[test]
    fn a_broken_escape_stays_as_it_is() {
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
    }

    #[rstest]
    #[case("resourceVersionMatch=Exact", false)]
    #[case("resourceVersionMatch=Exact&resourceVersion=0", false)]
    #[case("resourceVersionMatch=Newest&resourceVersion=4", false)]
    #[case("sendInitialEvents=true", false)]
    #[case("sendInitialEvents=true", true)]
    #[case("resourceVersionMatch=NotOlderThan", true)]
    fn combinations_that_mean_nothing_are_refused(#[case] query: &str, #[case] watch: bool) {
        let refusal = Query::parse(query).version_match(watch).unwrap_err();
        assert_eq!(refusal.code.as_u16(), 422);
    }
}
