//! How far a kind has come.
//!
//! A resourceVersion is officially opaque, and every consistency rule here needs to know which of two is newer. All API
//! servers in the field number them, and within one kind a larger number is later; so they are compared as integers, never
//! across kinds, and one that is not a number is compared with nothing: then whatever the watch says last is taken.

/// A resourceVersion as the API server wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version(Box<str>);

impl Version {
    /// Wraps the text of a `metadata.resourceVersion`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// What to send back to the API server.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its place in the order of its kind, if it has one.
    pub fn number(&self) -> Option<u64> {
        number(&self.0)
    }

    /// The older of the two; this one if they cannot be compared.
    #[must_use]
    pub fn older_of(self, other: Self) -> Self {
        let is_older = other.number().zip(self.number()).is_some_and(|(other, this)| other < this);
        if is_older { other } else { self }
    }
}

/// The number in the text of a resourceVersion.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers_not_as_text() {
        assert!(Version::new("1000").number() > Version::new("999").number());
    }

    #[test]
    fn a_version_that_is_no_number_has_no_place_in_the_order() {
        assert_eq!(Version::new("2026-a").number(), None);
        assert_eq!(Version::default().number(), None);
    }
}
