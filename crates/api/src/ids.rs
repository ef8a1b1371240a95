//! Names and ids of the Machine API, each with a type of its own: a Machine and its Node often have the same name.

use meta::id;

id! {
    /// The name of a Machine.
    MachineName
}

id! {
    /// The name under which a kubelet registers: the value of the Machine label `node`.
    NodeName
}

id! {
    /// A VM's id at its provider. A Machine with one has a VM.
    ProviderId
}

id! {
    /// The name of a PersistentVolume.
    VolumeName
}

id! {
    /// A disk's id at its provider, as it appears among the volumes attached to a Node.
    VolumeId
}
