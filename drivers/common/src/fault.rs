//! What is wrong with a `providerSpec` or a Secret, field by field.
//!
//! Whoever writes a class learns everything at once, in the words of Kubernetes' own validation: `<path>: Required value: <text>`.
//! One fault stands alone, several stand in brackets. Programs match these texts, so they are those that Go's
//! `field.ErrorList` prints.

use std::fmt;

use driver::DriverError;

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is missing.
    Required,
    /// It holds what it must not hold.
    Invalid(BadValue),
    /// It holds none of the values there are.
    Unsupported(BadValue),
    /// It must not be there.
    Forbidden,
    /// It is there twice.
    Duplicate(BadValue),
}

/// A value as an error prints it. Values of a Secret are never made into one.
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
    /// A field that is missing.
    pub fn required(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Required, text.into()));
    }

    /// A field with a value that it must not have.
    pub fn invalid(&mut self, path: impl Into<String>, value: impl Into<BadValue>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Invalid(value.into()), text.into()));
    }

    /// A field with none of the values that there are.
    pub fn unsupported(&mut self, path: impl Into<String>, value: impl Into<BadValue>, supported: &[&str]) {
        let supported = supported.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(", ");
        self.0.push((path.into(), Fault::Unsupported(value.into()), format!("supported values: {supported}")));
    }

    /// A field that must not be there.
    pub fn forbidden(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.0.push((path.into(), Fault::Forbidden, text.into()));
    }

    /// A value that is there twice.
    pub fn duplicate(&mut self, path: impl Into<String>, value: impl Into<BadValue>) {
        self.0.push((path.into(), Fault::Duplicate(value.into()), String::new()));
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These faults and then those.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// `value`, unless something is wrong: then an `InvalidArgument` that tells all of it.
    pub fn or<T>(self, what: &str, value: T) -> Result<T, DriverError> {
        if self.is_empty() { Ok(value) } else { Err(DriverError::invalid(format!("{what}{self}"))) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.iter().map(|(path, fault, text)| {
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
        match told.collect::<Vec<_>>().as_slice() {
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
    fn one_fault_stands_alone_and_several_in_brackets() {
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
    fn faults_are_an_invalid_argument_and_none_are_a_success() {
        assert_eq!(Faults::default().or("", 7).unwrap(), 7);
        let mut faults = Faults::default();
        faults.required("secretRef.userData", "");
        let error = faults.or("error while validating ProviderSpec: ", ()).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.message(), "error while validating ProviderSpec: secretRef.userData: Required value");
    }
}
