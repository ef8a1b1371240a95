//! What a cache knows of an object.

/// An object as a planner finds it. *Undecodable* is not *absent*: an object that is there but cannot be read must never be
/// taken for one that is gone, or its machine would be replaced for a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence<T> {
    /// There is no such object.
    Absent,
    /// Here it is.
    Present(T),
    /// It exists, but nobody can read it.
    Undecodable,
}

/// Whether an object that the cache does not show was looked for by a list that could have shown it. A watch of one kind may be
/// ahead of that of another: an object may name one that we have not been told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookedFor {
    /// Such a list has been taken over, so what it lacks is missing.
    Yes,
    /// It was asked for and will come.
    NotYet,
}

impl<T> Presence<T> {
    /// The object, if it can be read.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Undecodable => None,
        }
    }

    /// The same finding, by reference.
    pub fn as_ref(&self) -> Presence<&T> {
        match self {
            Self::Absent => Presence::Absent,
            Self::Present(object) => Presence::Present(object),
            Self::Undecodable => Presence::Undecodable,
        }
    }

    /// The same finding, about something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Presence<U> {
        match self {
            Self::Absent => Presence::Absent,
            Self::Present(object) => Presence::Present(change(object)),
            Self::Undecodable => Presence::Undecodable,
        }
    }
}
