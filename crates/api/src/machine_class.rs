//! The MachineClass: what kind of VM, told to the driver.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Quantity;
use meta::Annotations;
use meta::kind;
use meta::record;

kind! {
    /// A MachineClass says what kind of VM its machines are, in the words of their provider.
    pub struct MachineClass: "MachineClass", "machineclasses", group "machine.sapcloud.io", version "v1alpha1",
        annotations (Annotations::All)
    {
        /// What the driver needs to know. Handed on untouched.
        pub provider_spec: Value = "providerSpec" (required),
        /// The provider's name. Drivers compare it with their own.
        pub provider: String = "provider",
        /// A Secret with user data, credentials or both.
        pub secret_ref: Option<SecretRef> = "secretRef",
        /// A Secret with credentials. Its keys win over those of secretRef.
        pub credentials_secret_ref: Option<SecretRef> = "credentialsSecretRef",
        /// What a Node of this class looks like, for scaling up from zero.
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
    /// What a Node of a class looks like.
    pub struct ClassNodeTemplate, keeps extra, as open {
        /// What a Node has; cpu, gpu and memory must be among it.
        pub capacity: BTreeMap<String, Quantity> = "capacity" (required),
        /// Further resources to write into the Node's capacity.
        pub virtual_capacity: BTreeMap<String, Quantity> = "virtualCapacity",
        /// The provider's name for this type of VM.
        pub instance_type: String = "instanceType" (required),
        /// The region of the VMs.
        pub region: String = "region" (required),
        /// The zone of the VMs.
        pub zone: String = "zone" (required),
        /// The CPU architecture of the VMs.
        pub architecture: Option<String> = "architecture",
    }
}
