//! Definition of kinds.
//!
//! `kind!` is `record!` for a complete object: the keys besides `apiVersion`, `kind` and `metadata`. It is used for the four kinds of the
//! Machine API and for views of Kubernetes kinds. Views have the group, version and kind of the real type, so they can be listed and
//! watched.

/// See the module [`kind`](mod@crate::kind).
#[macro_export]
macro_rules! kind {
    (
        $(#[doc = $about:literal])*
        pub struct $Name:ident: $kind:literal, $plural:literal, group $group:literal, version $version:literal,
            annotations ($annotations:expr)
        {
            $(
                $(#[doc = $text:literal])*
                pub $field:ident : $Type:ty = $key:literal $( ( $($mark:ident),+ ) )?,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Name {
            /// Metadata, without `managedFields`.
            pub metadata: $crate::ObjectMeta,
            $(
                $(#[doc = $text])*
                pub $field: $Type,
            )*
        }

        $crate::record_impl! {
            $Name, [$($about),*], [], [],
            $( { $field, $Type, $key, [$($text),*], [$($($mark),+)?] } )*
        }

        impl $Name {
            /// Returns the controlling owner, if any.
            pub fn controller_owner(&self) -> Option<&$crate::OwnerReference> {
                self.metadata.owner_references.iter().find(|owner| owner.controller == Some(true))
            }
        }

        impl $crate::Object for $Name {
            fn kind() -> ::std::borrow::Cow<'static, str> {
                $kind.into()
            }
            fn group() -> ::std::borrow::Cow<'static, str> {
                $group.into()
            }
            fn version() -> ::std::borrow::Cow<'static, str> {
                $version.into()
            }
            fn plural() -> ::std::borrow::Cow<'static, str> {
                $plural.into()
            }
            fn name(&self) -> &str {
                &self.metadata.name
            }
            fn namespace(&self) -> &str {
                &self.metadata.namespace
            }
            fn uid_text(&self) -> &str {
                self.metadata.uid.as_str()
            }
            fn resource_version(&self) -> &str {
                &self.metadata.resource_version
            }
            fn generation(&self) -> i64 {
                self.metadata.generation
            }
            fn label(&self, key: &str) -> Option<&str> {
                self.metadata.labels.text(key)
            }
            fn annotation(&self, key: &str) -> Option<&str> {
                self.metadata.annotations.text(key)
            }
            fn has_finalizer(&self, finalizer: &str) -> bool {
                self.metadata.finalizers.iter().any(|f| *f == *finalizer)
            }
            fn has_finalizers(&self) -> bool {
                !self.metadata.finalizers.is_empty()
            }
            fn deletion_grace_period_seconds(&self) -> Option<i64> {
                self.metadata.deletion_grace_period_seconds
            }
            fn deleted_at(&self) -> Option<::jiff::Timestamp> {
                self.metadata.deletion_timestamp.map($crate::Time::timestamp)
            }
            fn created_at(&self) -> Option<::jiff::Timestamp> {
                self.metadata.creation_timestamp.map($crate::Time::timestamp)
            }
            fn controller_uid(&self) -> Option<&str> {
                self.controller_owner().map(|owner| owner.uid.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Keys;
                impl<'de> ::serde::de::Visitor<'de> for Keys {
                    type Value = $Name;
                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str(concat!("a ", $kind))
                    }
                    fn visit_map<A: ::serde::de::MapAccess<'de>>(self, mut map: A) -> Result<$Name, A::Error> {
                        let mut object = $Name::default();
                        while let Some($crate::record::Key(key)) = map.next_key()? {
                            if key == "metadata" {
                                let metadata: $crate::ObjectMeta = map.next_value_seed($crate::wire::Read::default())?;
                                object.metadata = metadata.keep($annotations);
                            } else if !$crate::record::Record::read_key(&mut object, &key, &mut map)? {
                                map.next_value::<::serde::de::IgnoredAny>()?;
                            }
                        }
                        Ok(object)
                    }
                }
                from.deserialize_map(Keys)
            }
        }

        impl ::serde::Serialize for $Name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap as _;
                let mut map = to.serialize_map(None)?;
                map.serialize_entry("apiVersion", &*<Self as $crate::Object>::api_version())?;
                map.serialize_entry("kind", $kind)?;
                map.serialize_entry("metadata", &self.metadata)?;
                $crate::record::Record::write_keys(self, &mut map)?;
                map.end()
            }
        }
    };
}
