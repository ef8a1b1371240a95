//! The volumes a kubelet uses for its pods.
//!
//! A kubelet says in its node's `volumesInUse` which volumes it uses, before it uses them and until it has let go: that is what keeps
//! a volume from being detached under a running pod. It starts a pod only when all its volumes are attached. What each pod uses is
//! looked up once; pods without claims cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::pods::{KubeletPod, PodKey};

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The PersistentVolume's name.
    pub(super) volume: String,
    /// How the node's status calls it.
    pub(super) unique: String,
    pub(super) attaching: Attaching,
}

/// Whether a volume has to be attached before it can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attaching {
    /// By us: it is one of this cloud's.
    Needed,
    /// Not by us, and not waited for.
    Foreign,
}

/// All that one kubelet uses, by the uids of its pods.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    known: BTreeMap<String, Vec<Mount>>,
    /// What the node's status says.
    said: BTreeSet<String>,
}

impl Mounts {
    /// Takes over what the node's status says, from before we began.
    pub(super) fn begin(&mut self, said: BTreeSet<String>) {
        self.said = said;
    }

    /// Forgets pods that are gone; those whose volumes must be looked up.
    pub(super) fn update<'a>(&mut self, pods: &'a BTreeMap<PodKey, KubeletPod>) -> Vec<(&'a PodKey, &'a KubeletPod)> {
        self.known.retain(|uid, _| pods.values().any(|pod| pod.uid == *uid));
        let unknown =
            |pod: &KubeletPod| !pod.claims.is_empty() && !pod.is_finished() && !self.known.contains_key(&pod.uid);
        pods.iter().filter(|(_, pod)| unknown(pod)).collect()
    }

    /// A pod uses these.
    pub(super) fn learn(&mut self, uid: &str, mounts: Vec<Mount>) {
        self.known.insert(uid.to_owned(), mounts);
    }

    /// A pod has let go of its volumes.
    pub(super) fn release(&mut self, uid: &str) {
        self.known.remove(uid);
    }

    /// The volumes of a pod, if they have been looked up.
    pub(super) fn of(&self, uid: &str) -> Option<&[Mount]> {
        self.known.get(uid).map(Vec::as_slice)
    }

    /// What the node's status should say, if it says something else.
    pub(super) fn to_say(&self) -> Option<BTreeSet<String>> {
        let used: BTreeSet<String> = self.known.values().flatten().map(|mount| mount.unique.clone()).collect();
        (used != self.said).then_some(used)
    }

    /// It has been said.
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
    fn what_was_said_before_we_began_is_taken_back_if_nobody_uses_it() {
        let mut mounts = Mounts::default();
        mounts.begin(BTreeSet::from(["u/old".to_owned()]));
        assert_eq!(mounts.to_say(), Some(BTreeSet::new()));
    }
}
