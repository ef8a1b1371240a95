//! What a cache knows of an object.

/// An object as a planner finds it. *Undecodable* is not *absent*: an object that is there but cannot be read must never be
/// taken for one that is gone, or its machine would be replaced for a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<T> {
    /// There is no such object.
    Absent,
    /// Here it is.
    Present(T),
    /// It exists, but nobody can read it.
    Undecodable,
}

impl<T> Lookup<T> {
    /// The object, if it can be read.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Absent | Self::Undecodable => None,
        }
    }

    /// The same finding, by reference.
    pub fn as_ref(&self) -> Lookup<&T> {
        match self {
            Self::Absent => Lookup::Absent,
            Self::Present(object) => Lookup::Present(object),
            Self::Undecodable => Lookup::Undecodable,
        }
    }

    /// The same finding, about something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Absent => Lookup::Absent,
            Self::Present(object) => Lookup::Present(change(object)),
            Self::Undecodable => Lookup::Undecodable,
        }
    }
}
