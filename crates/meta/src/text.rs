//! Interned texts.
//!
//! Machines and Nodes have the same conditions with the same reasons, the same label keys and mostly the same values. With five thousand
//! of each there are a few dozen different texts, hundreds of thousands of times. Equal texts share memory, which is freed with the last
//! of them. A text has the size of a pointer; texts of up to seven bytes need no further memory.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};
use string_cache::DefaultAtom;

use crate::wire::Wire;

/// An interned text, used like a `str`. A text that occurs only once needs more memory than a `String`.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(DefaultAtom);

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Same hash as `str`, so that maps can be queried with a `str`.
impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Box<str>> for Text {
    fn from(text: Box<str>) -> Self {
        (&*text).into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, text: &str) -> bool {
        *self.0 == *text
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, text: &&str) -> bool {
        *self.0 == **text
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
        }
        from.deserialize_str(TextVisitor)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }
}

impl Wire for Text {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Option::<Self>::deserialize(from).map(Option::unwrap_or_default)
    }

    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self)
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn schema() -> Value {
        json!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_their_memory() {
        let (one, other) = (
            Text::from("kubelet has sufficient memory available"),
            Text::from("kubelet has sufficient memory available"),
        );
        assert_eq!(one.as_ptr(), other.as_ptr());
        assert_eq!(size_of::<Text>(), size_of::<usize>());
    }

    #[test]
    fn texts_are_ordered_like_strings() {
        let mut texts = ["b", "a text that is not stored inline", "", "zz", "a"].map(Text::from);
        texts.sort();
        assert_eq!(texts.map(String::from), ["", "a", "a text that is not stored inline", "b", "zz"]);
    }

    #[test]
    fn null_is_the_empty_text() {
        assert_eq!(Text::read(json!(null)).unwrap(), Text::default());
        assert_eq!(Text::read(json!("x")).unwrap(), "x");
        Text::read(json!(7)).unwrap_err();
    }
}
