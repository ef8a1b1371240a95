//! Order of resourceVersions.
//!
//! A resourceVersion is officially opaque, but the consistency rules need to know which of two versions is newer. All
//! known API servers number them, and within one kind a larger number is later. Therefore they are compared as
//! integers, never across kinds. A version that is not a number is not compared: the last event of the watch wins.

/// A resourceVersion as the API server wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version(Box<str>);

impl Version {
    /// Wraps the text of a `metadata.resourceVersion`.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text to send to the API server.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its position in the order of its kind, if it is a number.
    pub fn number(&self) -> Option<u64> {
        number(&self.0)
    }

    /// Returns the older of the two versions; this one if they cannot be compared.
    #[must_use]
    pub fn older_of(self, other: Self) -> Self {
        let is_older = other.number().zip(self.number()).is_some_and(|(other, this)| other < this);
        if is_older { other } else { self }
    }
}

/// Returns the number in the text of a resourceVersion.
pub(super) fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows CAC-5.
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
