//! The volumes that a kubelet uses for its pods.
//!
//! A kubelet reports in `volumesInUse` of its node which volumes it uses, before it uses them and until it has released
//! them. This prevents detaching a volume from a running pod. A pod starts only when all its volumes are attached. The
//! volumes of each pod are resolved once; pods without claims need no request.
//! looked up once; pods without claims cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::pods::{KubeletPod, PodKey};

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The PersistentVolume's name.
    pub(super) volume: String,
    /// The name in the node's status.
    pub(super) unique: String,
    pub(super) attaching: Attaching,
}

/// Whether a volume must be attached before it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attaching {
    /// It belongs to this cloud's attacher.
    Needed,
    /// It belongs to another attacher and is not awaited.
    Foreign,
}

/// The volumes that one kubelet uses, by the uids of its pods.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    known: BTreeMap<String, Vec<Mount>>,
    /// The volumes in the node's status.
    said: BTreeSet<String>,
}

impl Mounts {
    /// Takes over the node's status from an earlier run.
    pub(super) fn begin(&mut self, said: BTreeSet<String>) {
        self.said = said;
    }

    /// Drops pods that are gone. Returns those whose volumes must be resolved.
    pub(super) fn update<'a>(&mut self, pods: &'a BTreeMap<PodKey, KubeletPod>) -> Vec<(&'a PodKey, &'a KubeletPod)> {
        self.known.retain(|uid, _| pods.values().any(|pod| pod.uid == *uid));
        let unknown =
            |pod: &KubeletPod| !pod.claims.is_empty() && !pod.is_finished() && !self.known.contains_key(&pod.uid);
        pods.iter().filter(|(_, pod)| unknown(pod)).collect()
    }

    /// Records the volumes of a pod.
    pub(super) fn learn(&mut self, uid: &str, mounts: Vec<Mount>) {
        self.known.insert(uid.to_owned(), mounts);
    }

    /// Releases the volumes of a pod.
    pub(super) fn release(&mut self, uid: &str) {
        self.known.remove(uid);
    }

    /// Returns the volumes of a pod, if they are resolved.
    pub(super) fn of(&self, uid: &str) -> Option<&[Mount]> {
        self.known.get(uid).map(Vec::as_slice)
    }

    /// Returns the new content of the node's status, if it differs.
    pub(super) fn to_say(&self) -> Option<BTreeSet<String>> {
        let used: BTreeSet<String> = self.known.values().flatten().map(|mount| mount.unique.clone()).collect();
        (used != self.said).then_some(used)
    }

    /// Records the content of the node's status.
    pub(super) fn note_said(&mut self, said: BTreeSet<String>) {
        self.said = said;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(volume: &str) -> Mount {
        Mount { volume: volume.into(), unique: format!("u/{volume}"), attaching: Attaching::Needed }
    }

    /// Shows VIR-11.
    #[test]
    fn a_volume_is_in_use_as_long_as_one_pod_uses_it() {
        let mut mounts = Mounts::default();
        mounts.learn("a", vec![mount("v")]);
        mounts.learn("b", vec![mount("v"), mount("w")]);
        let said = mounts.to_say().unwrap();
        assert_eq!(said, BTreeSet::from(["u/v".to_owned(), "u/w".to_owned()]));
        mounts.note_said(said);
        assert_eq!(mounts.to_say(), None);
        mounts.release("b");
        assert_eq!(mounts.to_say(), Some(BTreeSet::from(["u/v".to_owned()])));
        mounts.update(&BTreeMap::new());
        assert_eq!(mounts.to_say(), Some(BTreeSet::new()));
    }

    #[test]
    fn volume_in_use_of_an_earlier_run_is_removed_if_unused() {
        let mut mounts = Mounts::default();
        mounts.begin(BTreeSet::from(["u/old".to_owned()]));
        assert_eq!(mounts.to_say(), Some(BTreeSet::new()));
    }
}
