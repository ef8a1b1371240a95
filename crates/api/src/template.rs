//! Templates of Machines: MachineClass, node template and timeouts.

use crate::Time;
use crate::{ProviderId, SpecDuration, TaintEffect, TextMap};
use meta::record;

record! {
    /// Reference to a MachineClass.
    pub struct ClassSpec {
        /// API group of the MachineClass; used in metrics only.
        pub api_group: String = "apiGroup",
        /// Kind: MachineClass.
        pub kind: String = "kind",
        /// Name of the MachineClass, in the same namespace.
        pub name: String = "name",
    }
}

record! {
    /// Metadata of a template. The API server neither validates nor prunes it, so unknown keys are preserved.
    pub struct TemplateMeta, keeps extra, as opaque {
        /// Labels of objects created from the template.
        pub labels: Option<TextMap> = "labels",
        /// Annotations of objects created from the template.
        pub annotations: Option<TextMap> = "annotations",
        /// Finalizers of objects created from the template.
        pub finalizers: Option<Vec<String>> = "finalizers",
    }
}

record! {
    /// A taint of a Node.
    pub struct Taint, keeps extra {
        /// Key of the taint.
        pub key: String = "key" (required),
        /// Value of the taint.
        pub value: String = "value",
        /// Effect: NoSchedule, PreferNoSchedule or NoExecute.
        pub effect: TaintEffect = "effect" (required),
        /// Time at which the taint was added.
        pub time_added: Option<Time> = "timeAdded",
    }
}

impl Taint {
    /// Returns whether both are the same taint. A Node has at most one taint with the same key and effect.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

record! {
    /// Source of the configuration of the kubelet; has no effect.
    pub struct NodeConfigSource {
        /// Reference to a ConfigMap.
        pub config_map: Option<ConfigMapNodeConfigSource> = "configMap",
    }
}

record! {
    /// Reference to a ConfigMap with a kubelet configuration; has no effect.
    pub struct ConfigMapNodeConfigSource {
        /// Namespace of the ConfigMap.
        pub namespace: String = "namespace" (required),
        /// Name of the ConfigMap.
        pub name: String = "name" (required),
        /// Uid of the ConfigMap.
        pub uid: String = "uid",
        /// Resource version of the ConfigMap.
        pub resource_version: String = "resourceVersion",
        /// Key of the configuration in the ConfigMap.
        pub kubelet_config_key: String = "kubeletConfigKey" (required),
    }
}

record! {
    /// Desired spec of a Node. Only taints have an effect.
    pub struct NodeSpec {
        /// Range of the pod addresses; has no effect.
        pub pod_cidr: String = "podCIDR",
        /// Ranges of the pod addresses; have no effect.
        pub pod_cidrs: Vec<String> = "podCIDRs" (set_list),
        /// Provider ID of the Node; has no effect.
        pub provider_id: String = "providerID",
        /// Whether the Node is unschedulable; has no effect.
        pub unschedulable: bool = "unschedulable",
        /// Taints that are applied to the Node.
        pub taints: Vec<Taint> = "taints" (atomic),
        /// Source of the configuration of the kubelet; has no effect.
        pub config_source: Option<Box<NodeConfigSource>> = "configSource",
        /// Deprecated in Kubernetes; has no effect.
        pub external_id: String = "externalID",
    }
}

record! {
    /// Metadata and taints that are applied to the Node of a Machine.
    pub struct NodeTemplateSpec {
        /// Labels and annotations that are applied to the Node.
        pub metadata: TemplateMeta = "metadata",
        /// Taints that are applied to the Node.
        pub spec: NodeSpec = "spec",
    }
}

record! {
    /// Timeouts and limits of a Machine. The default of each value is a flag of the machine controller.
    pub struct MachineConfiguration {
        /// Time after the deletion request at which a drain is forced; flag `--machine-drain-timeout`. A Go duration such as
        /// 2h.
        pub drain_timeout: Option<SpecDuration> = "drainTimeout",
        /// Time for which the Machine may be unhealthy before it is marked Failed; flag `--machine-health-timeout`. A Go
        /// duration.
        pub health_timeout: Option<SpecDuration> = "healthTimeout",
        /// Time in which the Node must join before the Machine is marked Failed; flag `--machine-creation-timeout`. A Go
        /// duration.
        pub creation_timeout: Option<SpecDuration> = "creationTimeout",
        /// Time in which an in-place update must succeed before it is marked failed; flag `--machine-inplace-update-timeout`. A
        /// Go duration.
        pub in_place_update_timeout: Option<SpecDuration> = "inPlaceUpdateTimeout",
        /// Time for which the Machine is preserved; flag `--machine-preserve-timeout`. A Go duration.
        pub machine_preserve_timeout: Option<SpecDuration> = "machinePreserveTimeout",
        /// Disables the health timeout. The creation and in-place update timeouts still apply.
        pub disable_health_timeout: Option<bool> = "disableHealthTimeout",
        /// Maximum number of evictions of a pod before it is deleted; flag `--machine-max-evict-retries`. Limited to one per
        /// 20 s of the drain timeout.
        pub max_evict_retries: Option<i32> = "maxEvictRetries",
        /// Comma-separated Node conditions that make a Node unhealthy unless their status is False; flag
        /// `--node-conditions`.
        pub node_conditions: Option<String> = "nodeConditions",
    }
}

record! {
    /// Desired state of a Machine.
    pub struct MachineSpec with configuration: MachineConfiguration {
        /// Reference to the MachineClass.
        pub class: ClassSpec = "class",
        /// Provider ID of the VM. Written by the machine controller when the VM exists.
        pub provider_id: ProviderId = "providerID",
        /// Labels, annotations and taints that are applied to the Node.
        pub node_template: NodeTemplateSpec = "nodeTemplate",
    }
}

record! {
    /// Template of the Machines of a MachineSet.
    pub struct MachineTemplateSpec {
        /// Labels, annotations and finalizers of each Machine.
        pub metadata: TemplateMeta = "metadata",
        /// Spec of each Machine.
        pub spec: MachineSpec = "spec",
    }
}
