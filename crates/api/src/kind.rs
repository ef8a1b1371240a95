//! Objects of the API: metadata and what lies beside it.
//!
//! `kind!` is `record!` for a whole object: the keys beside `apiVersion`, `kind` and `metadata`. It serves the four kinds of
//! our own group and the lean views of Kubernetes' kinds alike; the latter name the real kind, so they can be listed and
//! watched in its place.

/// See the module.
macro_rules! kind {
    (
        $(#[doc = $about:literal])*
        pub struct $Name:ident: $kind:literal, $plural:literal, group $group:literal, version $version:literal,
            $Scope:ident, annotations ($annotations:expr)
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
            /// Name, labels, owners and so on; `managedFields` is never held.
            pub metadata: ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// What the owner references in `metadata` have no room for.
            pub owner_extras: $crate::metadata::OwnerExtras,
            $(
                $(#[doc = $text])*
                pub $field: $Type,
            )*
        }

        $crate::record::record_impl! {
            $Name, [$($about),*], [], [],
            $( { $field, $Type, $key, [$($text),*], [$($($mark),+)?] } )*
        }

        impl $Name {
            /// The owner references with every key they came with, for writing the list back.
            pub fn owners(&self) -> Vec<$crate::metadata::OwnerReference> {
                self.owner_extras.owners(&self.metadata)
            }
        }

        impl ::kube::Resource for $Name {
            type DynamicType = ();
            type Scope = ::kube::core::$Scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
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
                                let metadata: $crate::metadata::Metadata = map.next_value_seed($crate::wire::Read::new())?;
                                let metadata = metadata.keep($annotations);
                                object.metadata = metadata.meta;
                                object.owner_extras = metadata.owner_extras;
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
                map.serialize_entry("apiVersion", &*<Self as ::kube::Resource>::api_version(&()))?;
                map.serialize_entry("kind", $kind)?;
                map.serialize_entry(
                    "metadata",
                    &$crate::metadata::MetadataRef { meta: &self.metadata, owner_extras: &self.owner_extras },
                )?;
                $crate::record::Record::write_keys(self, &mut map)?;
                map.end()
            }
        }
    };
}

pub(crate) use kind;
