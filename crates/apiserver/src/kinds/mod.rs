//! The built-in kinds: what is special about each, and nothing else.

pub(crate) mod definitions;
mod events;
mod leases;
mod namespaces;
mod nodes;
mod pods;
mod secrets;
mod times;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;

use crate::resource::{BlindUpdate, DeleteAnswer, NameRule, PutOfMissing, Resource};

/// Every kind that is there without a definition.
pub(crate) fn built_in() -> Vec<Resource> {
    vec![
        Resource {
            subresources: vec!["finalize".to_owned()],
            names: NameRule::Label,
            ..Resource::built_in("", "v1", "Namespace", "namespaces")
                .cluster()
                .short(&["ns"])
                .with_status()
                .typed::<core::Namespace>()
                .ruled_by(namespaces::Namespaces)
        },
        Resource::built_in("", "v1", "Node", "nodes")
            .cluster()
            .short(&["no"])
            .with_status()
            .typed::<core::Node>()
            .ruled_by(nodes::Nodes),
        Resource {
            delete_answer: DeleteAnswer::Object,
            categories: vec!["all".to_owned()],
            ..Resource::built_in("", "v1", "Pod", "pods")
                .short(&["po"])
                .with_status()
                .with_generation()
                .typed::<core::Pod>()
                .ruled_by(pods::Pods)
        },
        Resource::built_in("", "v1", "Secret", "secrets").ruled_by(secrets::Secrets),
        Resource::built_in("", "v1", "ConfigMap", "configmaps")
            .short(&["cm"])
            .typed::<core::ConfigMap>()
            .ruled_by(secrets::ConfigMaps),
        Resource {
            delete_answer: DeleteAnswer::Object,
            ..Resource::built_in("", "v1", "ServiceAccount", "serviceaccounts")
                .short(&["sa"])
                .typed::<core::ServiceAccount>()
        },
        Resource {
            put_of_missing: PutOfMissing::Creates,
            ..Resource::built_in("", "v1", "Event", "events")
                .short(&["ev"])
                .typed::<core::Event>()
                .ruled_by(events::Events)
        },
        Resource {
            put_of_missing: PutOfMissing::Creates,
            blind_update: BlindUpdate::Refused,
            ..Resource::built_in("coordination.k8s.io", "v1", "Lease", "leases")
                .typed::<Lease>()
                .ruled_by(leases::Leases)
        },
        Resource {
            blind_update: BlindUpdate::Refused,
            categories: vec!["api-extensions".to_owned()],
            ..Resource::built_in("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions")
                .cluster()
                .short(&["crd", "crds"])
                .with_status()
                .with_generation()
                .ruled_by(definitions::Definitions)
        },
    ]
}
