//! Types for names and IDs. They are distinct, because a Machine and its Node often have the same name.

use meta::id;

id! {
    /// Name of a Machine.
    MachineName
}

id! {
    /// Name of a Node: the value of the Machine label `node`.
    NodeName
}

id! {
    /// Provider ID of a VM. A Machine with a provider ID has a VM.
    ProviderId
}

id! {
    /// Name of a PersistentVolume.
    VolumeName
}

id! {
    /// ID of a disk at its provider, as in the attached volumes of a Node.
    VolumeId
}
