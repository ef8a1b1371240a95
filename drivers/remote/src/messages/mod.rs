//! Conversion between protocol messages and driver types.
//!
//! Encoding and decoding preserves everything in the driver contract; other fields, such as the status and owners of a
//! machine, are not transferred. Input is not trusted: a response without a result is an error, and so is a list with a
//! nameless VM.

pub(crate) mod answer;
pub(crate) mod asked;
pub(crate) mod disk;
pub(crate) mod request;

pub use generated::*;

/// Code generated from `proto/millwright/driver/v1/driver.proto`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod generated {
    include!("../../generated/millwright.driver.v1.rs");
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hidden = self.data.keys().map(|key| (key, format_args!("***")));
        f.debug_map().entries(hidden).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows REM-9.
    #[test]
    fn debug_output_of_a_request_is_redacted() {
        let secret = Secret { data: [("token".to_owned(), b"hunter2".to_vec())].into() };
        let machine_class = MachineClass { secret: Some(secret), ..MachineClass::default() };
        let shown = format!("{:?}", CreateRequest { machine: None, machine_class: Some(machine_class) });
        assert!(shown.contains("token"));
        assert!(!shown.contains("hunter2") && !shown.contains("104"), "{shown}");
    }
}
