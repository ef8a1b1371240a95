//! The built-in kinds: what is special about each, and nothing else.

mod budgets;
pub(crate) mod definitions;
mod events;
mod fields;
mod leases;
pub(crate) mod namespaces;
mod nodes;
mod pods;
pub(crate) mod priorities;
mod secrets;
mod selectors;
mod times;
pub(crate) mod volumes;
mod workloads;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1 as core;

use crate::resource::{BlindUpdate, DeleteAnswer, Dependents, NameRule, PutOfMissing, Resource};
use crate::verbs::Part;

/// Every kind that is there without a definition.
pub(crate) fn built_in() -> Vec<Resource> {
    let mut kinds = core();
    kinds.extend(volumes::resources());
    kinds.extend(workloads::resources());
    kinds.extend([budgets::resource(), priorities::resource()]);
    kinds
}

fn core() -> Vec<Resource> {
    vec![
        Resource {
            subresources: vec![Part::Finalize],
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
            subresources: vec![Part::Binding, Part::Eviction],
            ..Resource::built_in("", "v1", "Pod", "pods")
                .short(&["po"])
                .in_all()
                .shown_when_deleted()
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
            dependents: Dependents::Ignored,
            ..Resource::built_in("", "v1", "Event", "events")
                .short(&["ev"])
                .typed::<core::Event>()
                .ruled_by(events::Events::Core)
        },
        Resource {
            // The same objects under other names.
            stored_as: "events".to_owned(),
            dialect: events::DIALECT,
            put_of_missing: PutOfMissing::Creates,
            dependents: Dependents::Ignored,
            ..Resource::built_in("events.k8s.io", "v1", "Event", "events")
                .short(&["ev"])
                .typed::<k8s_openapi::api::events::v1::Event>()
                .ruled_by(events::Events::Newer)
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
