//! Newtypes for IDs and names.

/// Defines a newtype over a string.
#[macro_export]
macro_rules! id {
    ($(#[doc = $about:literal])* $Name:ident) => {
        $(#[doc = $about])*
        #[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name(Box<str>);

        impl $Name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl From<&str> for $Name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $Name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl From<$Name> for String {
            fn from(id: $Name) -> Self {
                id.0.into()
            }
        }

        impl AsRef<str> for $Name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $Name {
            fn eq(&self, text: &str) -> bool {
                *self.0 == *text
            }
        }

        impl PartialEq<&str> for $Name {
            fn eq(&self, text: &&str) -> bool {
                *self.0 == **text
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }

        $crate::word_on_the_wire!($Name);
    };
}

id! {
    /// Uid of an object. A later object with the same name has another uid.
    Uid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_a_string_in_json() {
        let id: Uid = serde_json::from_str(r#""0a1b-2c""#).unwrap();
        assert_eq!(id, "0a1b-2c");
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""0a1b-2c""#);
        assert!(serde_json::from_str::<Uid>("null").unwrap().is_empty());
    }
}
