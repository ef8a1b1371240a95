//! Short names for versions of a pod template.

use std::hash::Hasher;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;

/// The letters Kubernetes uses: none that spell words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the name of a template's revision: equal for equal templates, in the format of the real controllers. The
/// hash differs, because theirs depends on the memory layout of Go structs.
pub(super) fn revision(template: &PodTemplateSpec) -> String {
    let mut hash = Fnv::default();
    hash.write(json!(template).to_string().as_bytes());
    let letter = |digit: u8| LETTERS.get(usize::from(digit) % LETTERS.len()).copied().unwrap_or(b'b');
    hash.finish().to_string().bytes().map(|digit| char::from(letter(digit))).collect()
}

/// FNV-1a in 32 bits. The standard library's hasher may change with the compiler, and a changed name would roll every pod.
struct Fnv(u32);

impl Default for Fnv {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn finish(&self) -> u64 {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_template_has_the_same_name_for_ever() {
        let template = |image: &str| {
            serde_json::from_value(json!({ "spec": { "containers": [{ "name": "c", "image": image }] } })).unwrap()
        };
        assert_eq!(revision(&template("a")), revision(&template("a")));
        assert_ne!(revision(&template("a")), revision(&template("b")));
        assert!(revision(&template("a")).bytes().all(|letter| LETTERS.contains(&letter)));
    }
}
