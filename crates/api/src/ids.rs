//! Names and ids, told apart by type: a machine and its node often share a name, but never a meaning.

/// Makes a newtype over a string.
macro_rules! id {
    ($(#[doc = $about:literal])* $Name:ident) => {
        $(#[doc = $about])*
        #[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name(Box<str>);

        impl $Name {
            /// As plain text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether there is none.
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

        $crate::vocabulary::word_on_the_wire!($Name);
    };
}

id! {
    /// The name of a Machine.
    MachineName
}
id! {
    /// The name under which a kubelet registers: the value of the Machine label `node`.
    NodeName
}
id! {
    /// A VM's id at its provider. A Machine with one has a VM.
    ProviderId
}
id! {
    /// What tells an object from a later one of the same name.
    Uid
}
id! {
    /// The name of a PersistentVolume.
    VolumeName
}
id! {
    /// A disk's id at its provider, as it appears among the volumes attached to a Node.
    VolumeId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_plain_text_on_the_wire() {
        let id: ProviderId = serde_json::from_str(r#""aws:///eu-1a/i-1""#).unwrap();
        assert_eq!(id, "aws:///eu-1a/i-1");
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""aws:///eu-1a/i-1""#);
        assert!(serde_json::from_str::<ProviderId>("null").unwrap().is_empty());
    }
}
