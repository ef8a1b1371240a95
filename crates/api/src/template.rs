//! What a machine is made from: its class, the node it is to become, and how patient we are with it.

use crate::Time;
use crate::{ProviderId, SpecDuration, TaintEffect, TextMap};
use meta::record;

record! {
    /// Which class of machine it is.
    pub struct ClassSpec {
        /// API group of the class; only shown in metrics.
        pub api_group: String = "apiGroup",
        /// Kind of the class: MachineClass.
        pub kind: String = "kind",
        /// Name of the class, in the same namespace.
        pub name: String = "name",
    }
}

record! {
    /// Metadata of something that does not exist yet. The API server neither checks nor prunes it, so besides the parts
    /// that are used everything else in it is carried along as it is.
    pub struct TemplateMeta, keeps extra, as opaque {
        /// Labels of what is made from the template.
        pub labels: Option<TextMap> = "labels",
        /// Annotations of what is made from the template.
        pub annotations: Option<TextMap> = "annotations",
        /// Finalizers of what is made from the template.
        pub finalizers: Option<Vec<String>> = "finalizers",
    }
}

record! {
    /// A taint: keeps pods that do not tolerate it away from a Node.
    pub struct Taint, keeps extra {
        /// The taint's key.
        pub key: String = "key" (required),
        /// The taint's value.
        pub value: String = "value",
        /// What it does: NoSchedule, PreferNoSchedule or NoExecute.
        pub effect: TaintEffect = "effect" (required),
        /// When it was added.
        pub time_added: Option<Time> = "timeAdded",
    }
}

impl Taint {
    /// Whether both are the same taint: there is at most one of a key and effect.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }
}

record! {
    /// Where a kubelet would read its configuration from; not acted upon.
    pub struct NodeConfigSource {
        /// A ConfigMap that holds it.
        pub config_map: Option<ConfigMapNodeConfigSource> = "configMap",
    }
}

record! {
    /// A ConfigMap with a kubelet configuration; not acted upon.
    pub struct ConfigMapNodeConfigSource {
        /// Namespace of the ConfigMap.
        pub namespace: String = "namespace" (required),
        /// Name of the ConfigMap.
        pub name: String = "name" (required),
        /// Uid of the ConfigMap.
        pub uid: String = "uid",
        /// Version of the ConfigMap.
        pub resource_version: String = "resourceVersion",
        /// The key in the ConfigMap that holds the configuration.
        pub kubelet_config_key: String = "kubeletConfigKey" (required),
    }
}

record! {
    /// The spec a Node is to have. Only taints are acted upon.
    pub struct NodeSpec {
        /// Range of the Node's pod addresses; not acted upon.
        pub pod_cidr: String = "podCIDR",
        /// Ranges of the Node's pod addresses; not acted upon.
        pub pod_cidrs: Vec<String> = "podCIDRs" (set_list),
        /// The provider's id of the Node; not acted upon.
        pub provider_id: String = "providerID",
        /// Whether new pods stay away; not acted upon.
        pub unschedulable: bool = "unschedulable",
        /// Taints to keep on the Node.
        pub taints: Vec<Taint> = "taints" (atomic),
        /// Source of the kubelet's configuration; not acted upon.
        pub config_source: Option<Box<NodeConfigSource>> = "configSource",
        /// No longer used by any kubelet; not acted upon.
        pub external_id: String = "externalID",
    }
}

record! {
    /// What is to be kept on the Node that a machine becomes.
    pub struct NodeTemplateSpec {
        /// Labels and annotations to keep on the Node.
        pub metadata: TemplateMeta = "metadata",
        /// Taints to keep on the Node.
        pub spec: NodeSpec = "spec",
    }
}

record! {
    /// How patient we are with one machine. Each missing value falls back to a flag of the machine controller.
    pub struct MachineConfiguration {
        /// How long after the deletion was asked for the drain becomes forceful; flag `--machine-drain-timeout`. A Go
        /// duration such as 2h.
        pub drain_timeout: Option<SpecDuration> = "drainTimeout",
        /// How long the machine may be unhealthy before it is marked Failed; flag `--machine-health-timeout`. A Go duration.
        pub health_timeout: Option<SpecDuration> = "healthTimeout",
        /// How long the machine may take to join before it is marked Failed; flag `--machine-creation-timeout`. A Go duration.
        pub creation_timeout: Option<SpecDuration> = "creationTimeout",
        /// How long an in-place update may take before it counts as failed; flag `--machine-inplace-update-timeout`. A Go
        /// duration.
        pub in_place_update_timeout: Option<SpecDuration> = "inPlaceUpdateTimeout",
        /// How long the machine is preserved once it is; flag `--machine-preserve-timeout`. A Go duration.
        pub machine_preserve_timeout: Option<SpecDuration> = "machinePreserveTimeout",
        /// Whether an unhealthy machine is never marked Failed. Creation and in-place timeouts still hold.
        pub disable_health_timeout: Option<bool> = "disableHealthTimeout",
        /// How often an eviction is tried before the pod is deleted; flag `--machine-max-evict-retries`. Not more often
        /// than every 20 s within the drain timeout.
        pub max_evict_retries: Option<i32> = "maxEvictRetries",
        /// Node conditions, separated by commas, that make a node unhealthy unless they are False; flag
        /// `--node-conditions`.
        pub node_conditions: Option<String> = "nodeConditions",
    }
}

record! {
    /// What a machine is to be.
    pub struct MachineSpec with configuration: MachineConfiguration {
        /// The class the machine is made from.
        pub class: ClassSpec = "class",
        /// The provider's id of the VM. Written by the machine controller once the VM exists.
        pub provider_id: ProviderId = "providerID",
        /// Labels, annotations and taints to keep on the Node.
        pub node_template: NodeTemplateSpec = "nodeTemplate",
    }
}

record! {
    /// What the machines of a set are made from.
    pub struct MachineTemplateSpec {
        /// Labels, annotations and finalizers that each machine gets.
        pub metadata: TemplateMeta = "metadata",
        /// The spec that each machine gets.
        pub spec: MachineSpec = "spec",
    }
}
