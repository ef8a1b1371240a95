//! The hash of a template, and the name of its MachineSet.
//!
//! The hash is a label of the MachineSet and its Machines, so that the selectors of the MachineSets of a
//! MachineDeployment differ, and its first digits are part of the name of the MachineSet. MCM calculates it from a dump
//! of its Go structs. Both implementations must choose the same name, so the dump is reproduced here, including type
//! names. The hash does not identify MachineSets: templates are compared by [`same_template`](super::same_template).

use std::fmt::{Display, Write as _};

use api::{
    MachineConfiguration, MachineSpec, MachineTemplateSpec, NodeConfigSource, NodeSpec, SpecDuration, Taint,
    TemplateMeta, TextMap,
};
use serde_json::Value;

/// The hash of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateHash(u32);

impl TemplateHash {
    /// Returns the hash of a template after this number of name collisions; `None` and 0 result in different hashes.
    #[must_use]
    pub fn of(template: &MachineTemplateSpec, collisions: Option<i32>) -> Self {
        let mut hash = fnv1a(0x811c_9dc5, dump(template).as_bytes());
        if let Some(count) = collisions {
            hash = fnv1a(hash, &count.to_le_bytes());
            hash = fnv1a(hash, &[0; 4]);
        }
        Self(hash)
    }

    /// Returns the value of the label.
    #[must_use]
    pub fn label(self) -> String {
        self.0.to_string()
    }

    /// Returns the name of the MachineSet for this template: the first five digits in an alphabet without vowels.
    #[must_use]
    pub fn set_name(self, deployment: &str) -> String {
        let letter = |digit: char| match digit {
            '0' => '4',
            '1' => '5',
            '2' => '6',
            '3' => '7',
            '4' => '8',
            '5' => '9',
            '6' => 'b',
            '7' => 'c',
            '8' => 'd',
            _ => 'f',
        };
        let suffix: String = self.label().chars().take(5).map(letter).collect();
        format!("{deployment}-{suffix}")
    }
}

fn fnv1a(from: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(from, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn dump(template: &MachineTemplateSpec) -> String {
    let mut out = Dump::default();
    out.0.push_str("(v1alpha1.MachineTemplateSpec)");
    out.record(|out| {
        out.field("ObjectMeta", "v1.ObjectMeta", |out| out.meta(&template.metadata));
        out.field("Spec", "v1alpha1.MachineSpec", |out| out.machine_spec(&template.spec));
    });
    out.0
}

const NIL: &str = "<nil>";

/// A text that is being written. Writing to a `String` cannot fail, so the results of `write!` are ignored.
#[derive(Default)]
struct Dump(String);

impl Dump {
    fn record(&mut self, fields: impl FnOnce(&mut Self)) {
        self.0.push('{');
        fields(self);
        // Each field is followed by a space.
        if self.0.ends_with(' ') {
            self.0.pop();
        }
        self.0.push('}');
    }

    fn field(&mut self, name: &str, kind: &str, value: impl FnOnce(&mut Self)) {
        let _ = write!(self.0, "{name}:({kind})");
        value(self);
        self.0.push(' ');
    }

    fn plain(&mut self, name: &str, kind: &str, value: impl Display) {
        self.field(name, kind, |out| {
            let _ = write!(out.0, "{value}");
        });
    }

    fn pointer(&mut self, name: &str, kind: &str, value: Option<impl Display>) {
        match value {
            Some(value) => self.plain(name, kind, value),
            None => self.plain(name, kind, NIL),
        }
    }

    fn texts<'a>(&mut self, name: &str, kind: &str, list: Option<impl Iterator<Item = &'a String>>) {
        let list = list.map(|list| format!("[{}]", list.cloned().collect::<Vec<_>>().join(" ")));
        self.pointer(name, kind, list);
    }

    fn map(&mut self, name: &str, map: Option<&TextMap>) {
        let entries = |map: &TextMap| map.texts().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>();
        self.pointer(name, "map[string]string", map.map(|map| format!("map[{}]", entries(map).join(" "))));
    }

    fn meta(&mut self, meta: &TemplateMeta) {
        let text = |key| meta.extra.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key| meta.extra.get(key).and_then(Value::as_i64);
        self.record(|out| {
            out.plain("Name", "string", text("name"));
            out.plain("GenerateName", "string", text("generateName"));
            out.plain("Namespace", "string", text("namespace"));
            out.plain("SelfLink", "string", text("selfLink"));
            out.plain("UID", "types.UID", text("uid"));
            out.plain("ResourceVersion", "string", text("resourceVersion"));
            out.plain("Generation", "int64", number("generation").unwrap_or_default());
            out.field("CreationTimestamp", "v1.Time", |out| out.time(0));
            out.plain("DeletionTimestamp", "*v1.Time", NIL);
            out.pointer("DeletionGracePeriodSeconds", "*int64", number("deletionGracePeriodSeconds"));
            out.map("Labels", meta.labels.as_ref());
            out.map("Annotations", meta.annotations.as_ref());
            out.plain("OwnerReferences", "[]v1.OwnerReference", NIL);
            out.texts("Finalizers", "[]string", meta.finalizers.as_ref().map(|list| list.iter()));
            out.plain("ManagedFields", "[]v1.ManagedFieldsEntry", NIL);
        });
    }

    /// Only the unset time equals MCM's. The dump of a set time contains a pointer and differs in every process.
    fn time(&mut self, second: i64) {
        self.record(|out| {
            out.field("Time", "time.Time", |out| {
                out.record(|out| {
                    out.plain("wall", "uint64", 0);
                    out.plain("ext", "int64", second);
                    out.plain("loc", "*time.Location", NIL);
                });
            });
        });
    }

    fn machine_spec(&mut self, spec: &MachineSpec) {
        self.record(|out| {
            out.field("Class", "v1alpha1.ClassSpec", |out| {
                out.record(|out| {
                    out.plain("APIGroup", "string", &spec.class.api_group);
                    out.plain("Kind", "string", &spec.class.kind);
                    out.plain("Name", "string", &spec.class.name);
                });
            });
            out.plain("ProviderID", "string", spec.provider_id.as_str());
            out.field("NodeTemplateSpec", "v1alpha1.NodeTemplateSpec", |out| {
                out.record(|out| {
                    out.field("ObjectMeta", "v1.ObjectMeta", |out| out.meta(&spec.node_template.metadata));
                    out.field("Spec", "v1.NodeSpec", |out| out.node_spec(&spec.node_template.spec));
                });
            });
            out.field("MachineConfiguration", "*v1alpha1.MachineConfiguration", |out| {
                out.configuration(&spec.configuration);
            });
        });
    }

    fn node_spec(&mut self, spec: &NodeSpec) {
        self.record(|out| {
            out.plain("PodCIDR", "string", &spec.pod_cidr);
            out.texts("PodCIDRs", "[]string", (!spec.pod_cidrs.is_empty()).then(|| spec.pod_cidrs.iter()));
            out.plain("ProviderID", "string", &spec.provider_id);
            out.plain("Unschedulable", "bool", spec.unschedulable);
            out.field("Taints", "[]v1.Taint", |out| out.taints(&spec.taints));
            out.field("ConfigSource", "*v1.NodeConfigSource", |out| out.config_source(spec.config_source.as_deref()));
            out.plain("DoNotUseExternalID", "string", &spec.external_id);
        });
    }

    fn taints(&mut self, taints: &[Taint]) {
        if taints.is_empty() {
            self.0.push_str(NIL);
            return;
        }
        self.0.push('[');
        for (place, taint) in taints.iter().enumerate() {
            if place > 0 {
                self.0.push(' ');
            }
            self.record(|out| {
                out.plain("Key", "string", &taint.key);
                out.plain("Value", "string", &taint.value);
                out.plain("Effect", "v1.TaintEffect", &taint.effect);
                match taint.time_added {
                    Some(time) => out.field("TimeAdded", "*v1.Time", |out| out.time(time.timestamp().as_second())),
                    None => out.plain("TimeAdded", "*v1.Time", NIL),
                }
            });
        }
        self.0.push(']');
    }

    fn config_source(&mut self, source: Option<&NodeConfigSource>) {
        let Some(source) = source else {
            self.0.push_str(NIL);
            return;
        };
        self.record(|out| {
            out.field("ConfigMap", "*v1.ConfigMapNodeConfigSource", |out| match &source.config_map {
                Some(map) => out.record(|out| {
                    out.plain("Namespace", "string", &map.namespace);
                    out.plain("Name", "string", &map.name);
                    out.plain("UID", "types.UID", &map.uid);
                    out.plain("ResourceVersion", "string", &map.resource_version);
                    out.plain("KubeletConfigKey", "string", &map.kubelet_config_key);
                }),
                None => out.0.push_str(NIL),
            });
        });
    }

    fn configuration(&mut self, configuration: &MachineConfiguration) {
        if *configuration == MachineConfiguration::default() {
            self.0.push_str(NIL);
            return;
        }
        self.record(|out| {
            out.duration("MachineDrainTimeout", configuration.drain_timeout.as_ref());
            out.duration("MachineHealthTimeout", configuration.health_timeout.as_ref());
            out.duration("MachineCreationTimeout", configuration.creation_timeout.as_ref());
            out.duration("MachineInPlaceUpdateTimeout", configuration.in_place_update_timeout.as_ref());
            out.duration("MachinePreserveTimeout", configuration.machine_preserve_timeout.as_ref());
            out.pointer("DisableHealthTimeout", "*bool", configuration.disable_health_timeout);
            out.pointer("MaxEvictRetries", "*int32", configuration.max_evict_retries);
            out.pointer("NodeConditions", "*string", configuration.node_conditions.as_ref());
        });
    }

    /// A duration that cannot be parsed has no number. MCM cannot decode such an object.
    fn duration(&mut self, name: &str, duration: Option<&SpecDuration>) {
        match duration {
            Some(duration) => self.field(name, "*v1.Duration", |out| {
                let nanos = duration.valid().map_or(0, api::GoDuration::as_nanos);
                out.record(|out| out.plain("Duration", "time.Duration", nanos));
            }),
            None => self.plain(name, "*v1.Duration", NIL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn plain() -> Value {
        json!({ "metadata": { "labels": { "test-label": "test-label" } }, "spec": { "class": { "kind": "MachineClass", "name": "test-mc" } } })
    }

    fn without_labels() -> Value {
        json!({ "metadata": { "labels": {} }, "spec": { "class": { "kind": "MachineClass", "name": "test-mc" } } })
    }

    fn tainted() -> Value {
        let mut template = plain();
        template["spec"]["nodeTemplate"] = json!({ "spec": { "taints": [
            { "key": "a", "effect": "NoSchedule" }, { "key": "b", "value": "c", "effect": "NoExecute" }
        ] } });
        template
    }

    fn full() -> Value {
        json!({
            "metadata": { "labels": { "app": "x", "name": "shoot--foo--bar-worker-z1" }, "annotations": { "k": "v" } },
            "spec": {
                "class": { "apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": "cls-1" },
                "nodeTemplate": {
                    "metadata": { "labels": { "a": "b" } },
                    "spec": { "taints": [{ "key": "t", "value": "v", "effect": "NoSchedule" }] },
                },
                "drainTimeout": "2h", "maxEvictRetries": 3, "disableHealthTimeout": true,
                "nodeConditions": "KernelDeadlock,ReadonlyFilesystem",
            },
        })
    }

    /// Shows MD-D16, MD-D17.
    #[rstest]
    #[case(plain(), None, "2832037949", "md-6d764")]
    #[case(plain(), Some(0), "3124241117", "md-75686")]
    #[case(plain(), Some(1), "1557578684", "md-599c9")]
    #[case(plain(), Some(2), "1962598687", "md-5fb69")]
    #[case(without_labels(), None, "1420208921", "md-58646")]
    #[case(tainted(), None, "4219747016", "md-865fc")]
    #[case(full(), None, "3067654989", "md-74bcb")]
    fn hash_and_name_equal_those_of_mcm(
        #[case] template: Value,
        #[case] collisions: Option<i32>,
        #[case] label: &str,
        #[case] name: &str,
    ) {
        let template: MachineTemplateSpec = serde_json::from_value(template).unwrap();
        let hash = TemplateHash::of(&template, collisions);
        assert_eq!((hash.label().as_str(), hash.set_name("md").as_str()), (label, name));
    }
}
