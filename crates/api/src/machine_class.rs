//! The MachineClass: the provider-specific template of VMs.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Quantity;
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineClass describes the VMs of its Machines in a provider-specific format.
    pub struct MachineClass: "MachineClass", "machineclasses", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// Provider-specific configuration. Passed to the driver unchanged.
        pub provider_spec: Value = "providerSpec" (required),
        /// Name of the provider. It selects the driver.
        pub provider: String = "provider",
        /// Reference to a Secret with user data, credentials or both.
        pub secret_ref: Option<SecretRef> = "secretRef",
        /// Reference to a Secret with credentials. Its keys override those of secretRef.
        pub credentials_secret_ref: Option<SecretRef> = "credentialsSecretRef",
        /// Properties of Nodes of this class, used to scale up from zero.
        pub node_template: Option<ClassNodeTemplate> = "nodeTemplate",
    }
}

record! {
    /// A reference to a Secret.
    pub struct SecretRef, as atomic {
        /// Name of the Secret.
        pub name: String = "name",
        /// Namespace of the Secret.
        pub namespace: String = "namespace",
    }
}

record! {
    /// Properties of Nodes of a MachineClass.
    pub struct ClassNodeTemplate, keeps extra, as open {
        /// Capacity of a Node. It must contain cpu, gpu and memory.
        pub capacity: BTreeMap<String, Quantity> = "capacity" (required),
        /// Additional resources to add to the capacity of the Node.
        pub virtual_capacity: BTreeMap<String, Quantity> = "virtualCapacity",
        /// Type of the VMs at the provider.
        pub instance_type: String = "instanceType" (required),
        /// Region of the VMs.
        pub region: String = "region" (required),
        /// Zone of the VMs.
        pub zone: String = "zone" (required),
        /// CPU architecture of the VMs.
        pub architecture: Option<String> = "architecture",
    }
}
