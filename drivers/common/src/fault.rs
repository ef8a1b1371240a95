//! Validation errors of a `providerSpec` or a Secret, field by field.
//!
//! All faults are reported at once, in the format of Kubernetes validation: `<path>: Required value: <text>`. A single
//! fault is printed as it is, several in brackets. Programs match these texts, so they equal the output of Go's
//! `field.ErrorList`.

use std::fmt;

use driver::DriverError;

/// The fault of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The field is missing.
    Required,
    /// The value is invalid.
    Invalid(BadValue),
    /// The value is not one of the supported values.
    Unsupported(BadValue),
    /// The field must not be set.
    Forbidden,
    /// The value occurs twice.
    Duplicate(BadValue),
}

/// A value as it appears in an error. Values of a Secret are never converted to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue(String);

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self(format!("{text:?}"))
    }
}

impl From<i32> for BadValue {
    fn from(number: i32) -> Self {
        Self(number.to_string())
    }
}

impl From<&serde_json::Value> for BadValue {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

/// The faults of one object, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<(String, Fault, String)>);

impl Faults {
    /// Adds a missing field.
    pub fn required(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Required, text.into()));
    }

    /// Adds a field with an invalid value.
    pub fn invalid(&mut self, path: impl Into<String>, value: impl Into<BadValue>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Invalid(value.into()), text.into()));
    }

    /// Adds a field whose value is not supported.
    pub fn unsupported(&mut self, path: impl Into<String>, value: impl Into<BadValue>, supported: &[&str]) {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        self.0.push((path.into(), Fault::Unsupported(value.into()), format!("supported values: {supported}")));
    }

    /// Adds a field that must not be set.
    pub fn forbidden(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Forbidden, text.into()));
    }

    /// Adds a duplicate value.
    pub fn duplicate(&mut self, path: impl Into<String>, value: impl Into<BadValue>) {
        self.0.push((path.into(), Fault::Duplicate(value.into()), String::new()));
    }

    /// Returns whether there are no faults.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the other faults.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Returns `value` if there are no faults, otherwise an `InvalidArgument` error with all of them.
    pub fn or<T>(self, what: &str, value: T) -> Result<T, DriverError> {
        if self.is_empty() { Ok(value) } else { Err(DriverError::invalid(format!("{what}{self}"))) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.0.iter().map(|(path, fault, text)| {
            let body = match fault {
                Fault::Required => "Required value".to_owned(),
                Fault::Invalid(BadValue(value)) => format!("Invalid value: {value}"),
                Fault::Unsupported(BadValue(value)) => format!("Unsupported value: {value}"),
                Fault::Forbidden => "Forbidden".to_owned(),
                Fault::Duplicate(BadValue(value)) => format!("Duplicate value: {value}"),
            };
            let separator = if text.is_empty() { "" } else { ": " };
            format!("{path}: {body}{separator}{text}")
        });
        match faults.collect::<Vec<_>>().as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Code;

    /// Shows CLD-2.
    #[test]
    fn single_fault_is_plain_and_several_are_in_brackets() {
        let mut faults = Faults::default();
        faults.required("providerSpec.ami", "AMI is required");
        assert_eq!(faults.to_string(), "providerSpec.ami: Required value: AMI is required");
        faults.invalid("providerSpec.blockDevices[0].ebs.iops", -1, "must be positive");
        faults.unsupported("providerSpec.x", "c", &["a", "b"]);
        faults.forbidden("providerSpec.y", "not with x");
        faults.duplicate("providerSpec.z[1]", "/dev/sdb");
        assert_eq!(
            faults.to_string(),
            "[providerSpec.ami: Required value: AMI is required, providerSpec.blockDevices[0].ebs.iops: Invalid value: -1: must be positive, \
             providerSpec.x: Unsupported value: \"c\": supported values: \"a\", \"b\", providerSpec.y: Forbidden: not with x, \
             providerSpec.z[1]: Duplicate value: \"/dev/sdb\"]"
        );
    }

    #[test]
    fn faults_become_an_invalid_argument_error() {
        assert_eq!(Faults::default().or("", 7).unwrap(), 7);
        let mut faults = Faults::default();
        faults.required("secretRef.userData", "");
        let error = faults.or("error while validating ProviderSpec: ", ()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.message(), "error while validating ProviderSpec: secretRef.userData: Required value");
    }
}
