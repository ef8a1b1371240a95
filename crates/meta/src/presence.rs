//! Result of looking up an object in a cache.

/// Result of looking up an object. *Undecodable* differs from *absent*: an object that exists but cannot be decoded must
/// not be treated as deleted. Otherwise a typing error in a Machine would cause its replacement.
///
/// `U` is what is known about an undecodable object. Planners do not use any of it, so for them it is `()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence<T, U = ()> {
    /// The object does not exist.
    Absent,
    /// The object exists and was decoded.
    Present(T),
    /// The object exists, but cannot be decoded.
    Undecodable(U),
}

impl<T, U> Presence<T, U> {
    /// Returns the object if it was decoded.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Undecodable(_) => None,
        }
    }

    /// Borrows the object, without the details of an undecodable one.
    pub fn as_ref(&self) -> Presence<&T> {
        match self {
            Self::Absent => Presence::Absent,
            Self::Present(object) => Presence::Present(object),
            Self::Undecodable(_) => Presence::Undecodable(()),
        }
    }

    /// Applies a function to the decoded object.
    pub fn map<V>(self, change: impl FnOnce(T) -> V) -> Presence<V, U> {
        match self {
            Self::Absent => Presence::Absent,
            Self::Present(object) => Presence::Present(change(object)),
            Self::Undecodable(object) => Presence::Undecodable(object),
        }
    }

    /// Discards what is known about an undecodable object.
    pub fn without_details(self) -> Presence<T> {
        match self {
            Self::Absent => Presence::Absent,
            Self::Present(object) => Presence::Present(object),
            Self::Undecodable(_) => Presence::Undecodable(()),
        }
    }
}
