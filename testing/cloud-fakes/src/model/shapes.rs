//! The extract as data.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

static SERVICES: LazyLock<Vec<Service>> = LazyLock::new(|| {
    let extracts = [include_str!("../../model/ec2.json"), include_str!("../../model/sts.json")];
    // A file that cannot be read is an empty model, in which every check fails with an unknown action.
    extracts.into_iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
});

/// What is wrong with a message.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    /// No service has such an action, or it is not in the extract.
    #[error("{0} is no action of the model")]
    UnknownAction(String),
    /// There is no such parameter.
    #[error("{0} is no parameter")]
    Unknown(String),
    /// A parameter that has to be there is not.
    #[error("{0} is missing")]
    Missing(String),
    /// A parameter is there, but not of its type. The value is not repeated: it may be a secret.
    #[error("{key} is not {wanted}")]
    Type {
        /// The parameter.
        key: String,
        /// What it has to be.
        wanted: String,
    },
    /// An answer has no such member.
    #[error("{0} is no member of the answer")]
    NoMember(String),
}

#[derive(Debug, Deserialize)]
pub(super) struct Service {
    pub(super) version: String,
    pub(super) protocol: Protocol,
    operations: BTreeMap<String, Operation>,
    shapes: BTreeMap<String, Shape>,
}

/// How names become keys and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    /// Keys begin with a capital, lists have no word of their own in them.
    Ec2,
    /// Names are as they are, elements of a list are below `member`.
    Query,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
    pub(super) result_wrapper: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Shape {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    #[serde(default)]
    pub(super) required: Vec<String>,
    #[serde(default)]
    pub(super) members: BTreeMap<String, Member>,
    pub(super) member: Option<Member>,
    #[serde(default)]
    pub(super) flattened: bool,
    #[serde(default, rename = "enum")]
    pub(super) words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Structure,
    List,
    String,
    Integer,
    Long,
    Double,
    Float,
    Boolean,
    Timestamp,
    Blob,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Member {
    pub(super) shape: String,
    location_name: Option<String>,
    query_name: Option<String>,
}

/// The service that has an action, and the action.
pub(super) fn operation(action: &str) -> Result<(&'static Service, &'static Operation), Problem> {
    let found = SERVICES.iter().find_map(|service| Some((service, service.operations.get(action)?)));
    found.ok_or_else(|| Problem::UnknownAction(action.to_owned()))
}

impl Service {
    pub(super) fn shape(&self, name: &str) -> Option<&Shape> {
        self.shapes.get(name)
    }

    /// The name of a member in a request.
    pub(super) fn key(&self, name: &str, member: &Member) -> String {
        let location = member.location_name.as_deref();
        match (self.protocol, member.query_name.as_deref()) {
            (Protocol::Ec2, Some(query)) => query.to_owned(),
            (Protocol::Ec2, None) => capitalized(location.unwrap_or(name)),
            (Protocol::Query, _) => location.unwrap_or(name).to_owned(),
        }
    }
}

impl Member {
    /// The name of the element in an answer.
    pub(super) fn element<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.location_name.as_deref().unwrap_or(otherwise)
    }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_extracts_can_be_read_and_are_closed() {
        assert_eq!(SERVICES.len(), 2);
        for service in SERVICES.iter() {
            let inner = service.shapes.values().flat_map(|shape| shape.members.values().chain(&shape.member));
            let ends =
                service.operations.values().flat_map(|operation| operation.input.iter().chain(&operation.output));
            for name in inner.map(|member| &member.shape).chain(ends) {
                assert!(service.shapes.contains_key(name), "{name}");
            }
        }
    }
}
