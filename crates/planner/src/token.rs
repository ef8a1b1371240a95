//! The bootstrap token a machine's kubelet logs in with for the first time.
//!
//! A token is a key to the cluster, so it lives as short as it can: it is made right before its VM is, it is good for one machine
//! and for as long as that machine may take to join, and it goes when the machine has joined or is gone.
//!
//! Its id follows from the Machine's uid. So a process that dies between making the token and making the VM finds the token again,
//! and a machine made anew under an old name gets another one. Six characters can coincide: a token that says it is somebody
//! else's is left alone and the next id is tried. The reference takes its ids from three characters of the machine's name; such a
//! token of ours is found and removed as well, when a machine that it had begun joins under us.

use std::fmt;

use api::names::secrets::bootstrap_token as names;
use api::{SecretData, Uid};
use jiff::Timestamp;

/// What this process knows of a machine's token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenRecord {
    /// Nothing: an earlier process may have made one.
    #[default]
    Unknown,
    /// We made one, or found it again.
    Made,
    /// It has served and could not be removed.
    NotRemoved {
        /// How often in a row.
        attempts: u32,
        /// When it was last tried.
        at: Timestamp,
    },
    /// There is none, or none is needed any more.
    Gone,
}

impl TokenRecord {
    /// The same after another removal that failed.
    #[must_use]
    pub fn not_removed(self, at: Timestamp) -> Self {
        let before = if let Self::NotRemoved { attempts, .. } = self { attempts } else { 0 };
        Self::NotRemoved { attempts: before.saturating_add(1), at }
    }
}

/// The public half of a token: six characters of `a-z0-9`, also the end of its Secret's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId(String);

/// Both components. What it is never shows in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    secret: String,
}

/// How many characters the secret half has.
pub const SECRET_LENGTH: usize = 16;

/// How many ids a machine may try before it is told that all are taken. Two machines that coincide are rare; five in a row mean that
/// something else is wrong.
pub const ATTEMPTS: u32 = 5;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl TokenId {
    /// The id of a machine, or its `attempt`-th other choice.
    #[must_use]
    pub fn of(uid: &Uid, attempt: u32) -> Self {
        let mut rest = spread(uid.as_str().as_bytes(), attempt);
        let id = (0..6).map(|_| {
            let digit = digit(rest);
            rest /= 36;
            digit
        });
        Self(id.collect())
    }

    /// The id the reference gives a machine of this name; it gives none to one of fewer than five bytes.
    #[must_use]
    pub fn of_reference(machine: &str) -> Option<Self> {
        let bytes = machine.as_bytes();
        let tail = bytes.get(bytes.len().checked_sub(5)?..)?;
        let half = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or('0');
        Some(Self(tail.iter().take(3).flat_map(|byte| [half(byte >> 4), half(byte & 15)]).collect()))
    }

    /// The name of its Secret.
    #[must_use]
    pub fn secret_name(&self) -> String {
        format!("{}{}", names::NAME_PREFIX, self.0)
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Token {
    /// A new token from random bytes, one for each character; `None` if they do not suffice. Bytes that would make some characters
    /// likelier than others are passed over, so hand in more than are needed.
    #[must_use]
    pub fn new(id: TokenId, random: &[u8]) -> Option<Self> {
        // 252 is the last multiple of 36 that a byte can hold.
        let secret: String =
            random.iter().filter(|byte| **byte < 252).take(SECRET_LENGTH).map(|byte| digit(u64::from(*byte))).collect();
        (secret.len() == SECRET_LENGTH).then_some(Self { id, secret })
    }

    /// What a kubelet is given: `id.secret`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}.{}", self.id.0, self.secret)
    }

    /// The half that nobody may see.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Which one it is.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// What its Secret holds.
    #[must_use]
    pub fn content(&self, machine: &str, expiration: Timestamp, extra_groups: &str) -> SecretData {
        SecretData::from_iter([
            (names::DESCRIPTION, names::description(machine)),
            (names::TOKEN_ID, self.id.0.clone()),
            (names::TOKEN_SECRET, self.secret.clone()),
            (names::EXPIRATION, whole_seconds(expiration)),
            (names::USAGE_AUTHENTICATION, names::USAGE_VALUE.to_owned()),
            (names::USAGE_SIGNING, names::USAGE_VALUE.to_owned()),
            (names::EXTRA_GROUPS, extra_groups.to_owned()),
        ])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}.***)", self.id.0)
    }
}

/// What a Secret that is already there under a token's name turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// This machine's token, still good.
    Usable(Token),
    /// This machine's token, but it has expired or cannot be used: delete it and make another.
    Spent,
    /// Somebody else's.
    Foreign,
}

/// Judges a Secret found under `id`.
#[must_use]
pub fn judge(found: &SecretData, id: &TokenId, machine: &str, now: Timestamp) -> Finding {
    if found.text(names::DESCRIPTION) != Some(names::description(machine).as_str()) {
        return Finding::Foreign;
    }
    // Without a time a token is good for ever; with one that nobody can read the API server takes it for expired.
    let expired = found.text(names::EXPIRATION).is_some_and(|at| at.parse::<Timestamp>().map_or(true, |at| at <= now));
    let secret = found.text(names::TOKEN_SECRET).filter(|s| s.len() == SECRET_LENGTH);
    match secret {
        Some(secret) if !expired && found.text(names::TOKEN_ID) == Some(id.0.as_str()) => {
            Finding::Usable(Token { id: id.clone(), secret: secret.to_owned() })
        }
        _ => Finding::Spent,
    }
}

/// RFC 3339 without fractions, as the reference writes it and kubeadm reads it.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn digit(number: u64) -> char {
    let index = usize::try_from(number % 36).unwrap_or_default();
    DIGITS.get(index).map_or('0', |byte| char::from(*byte))
}

/// FNV-1a, then a finalizer that lets every bit of the input reach every bit of the result: uids of one API server differ in few.
fn spread(bytes: &[u8], attempt: u32) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = bytes.iter().chain(&attempt.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325, fold);
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn token(machine: &str) -> (TokenId, Token) {
        let id = TokenId::of(&machine.into(), 0);
        (id.clone(), Token::new(id, &[7; 20]).unwrap())
    }

    /// Shows MC-W57.
    #[test]
    fn the_id_follows_from_the_uid_and_from_nothing_else() {
        let uid: Uid = "6d2c1f3e-0000-4000-8000-000000000001".into();
        assert_eq!(TokenId::of(&uid, 0), TokenId::of(&uid, 0));
        assert_ne!(TokenId::of(&uid, 0), TokenId::of(&uid, 1));
        assert_ne!(TokenId::of(&uid, 0), TokenId::of(&"6d2c1f3e-0000-4000-8000-000000000002".into(), 0));
    }

    #[test]
    fn the_ids_of_ten_thousand_machines_hardly_coincide() {
        let ids: BTreeSet<_> =
            (0..10_000).map(|n| TokenId::of(&format!("6d2c1f3e-0000-4000-8000-{n:012}").as_str().into(), 0)).collect();
        assert!(ids.len() > 9_990, "{}", ids.len());
    }

    #[test]
    fn the_reference_s_id_is_found_for_names_long_enough_to_have_one() {
        assert_eq!(TokenId::of_reference("machine-abcde").unwrap().to_string(), "616263");
        assert_eq!(TokenId::of_reference("abcd"), None);
    }

    #[test]
    fn the_secret_holds_what_the_api_server_and_kubeadm_expect() {
        let (id, token) = token("u");
        let content = token.content("m-1", now(), "system:bootstrappers:x");
        assert_eq!(content.text("token-id"), Some(id.to_string().as_str()));
        assert_eq!(content.text("expiration"), Some(NOW));
        assert_eq!(content.text("auth-extra-groups"), Some("system:bootstrappers:x"));
        assert_eq!(
            content.text("description"),
            Some("A bootstrap token for machine \"m-1\" generated by MachineControllerManager.")
        );
        assert_eq!(token.content("m-1", now(), "").get("auth-extra-groups"), Some(&b""[..]), "present even if empty");
        assert_eq!(id.secret_name(), format!("bootstrap-token-{id}"));
    }

    /// Shows MC-W57.
    #[test]
    fn a_token_is_used_again_only_by_its_machine_and_only_while_it_is_good() {
        let (id, token) = token("u");
        let soon = now() + jiff::SignedDuration::from_secs(60);
        let found = token.content("m-1", soon, "");
        assert_eq!(judge(&found, &id, "m-1", now()), Finding::Usable(token.clone()));
        assert_eq!(judge(&found, &id, "m-2", now()), Finding::Foreign);
        assert_eq!(judge(&found, &id, "m-1", soon), Finding::Spent);
        let mut odd = found.clone();
        odd.insert("expiration", "tomorrow");
        assert_eq!(judge(&odd, &id, "m-1", now()), Finding::Spent);
        let mut short = found;
        short.insert("token-secret", "short");
        assert_eq!(judge(&short, &id, "m-1", now()), Finding::Spent);
        assert_eq!(judge(&SecretData::default(), &id, "m-1", now()), Finding::Foreign);
    }

    /// Shows MC-W57.
    #[test]
    fn a_token_does_not_show_in_debug_output() {
        let (_, token) = token("u");
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    proptest! {
        #[test]
        fn a_token_has_the_form_kubelets_accept(uid in ".*", attempt in 0u32..9, random in prop::collection::vec(any::<u8>(), 0..64)) {
            let id = TokenId::of(&uid.as_str().into(), attempt);
            let fits = |text: &str, length| text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
            prop_assert!(fits(&id.to_string(), 6));
            if let Some(token) = Token::new(id, &random) {
                prop_assert!(fits(token.secret(), SECRET_LENGTH));
                prop_assert_eq!(token.text().len(), 23);
            } else {
                prop_assert!(random.iter().filter(|b| **b < 252).count() < SECRET_LENGTH);
            }
        }
    }
}
