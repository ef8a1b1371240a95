//! The bootstrap token with which the kubelet of a Machine authenticates for the first time.
//!
//! A token grants access to the cluster, so its lifetime is short: it is created directly before the VM, is valid for
//! one Machine and for its creation timeout, and is deleted when the Machine has joined or is gone.
//!
//! The ID is derived from the Machine's UID. So a process that restarts between creating the token and creating the VM
//! finds the token again, and a recreated Machine of the same name gets another one. IDs of six characters may collide:
//! a token of another Machine is not changed, and the next ID is tried. MCM derives the ID from three characters of the
//! Machine's name. Such a token is found and removed as well when a Machine that MCM created joins.

use std::fmt;

use api::names::secrets::bootstrap_token as names;
use api::{SecretData, Uid};
use jiff::Timestamp;

/// What this process knows about a Machine's token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenRecord {
    /// Unknown: an earlier process may have created one.
    #[default]
    Unknown,
    /// This process created or found one.
    Made,
    /// The token is no longer needed, but could not be removed.
    NotRemoved {
        /// Number of failed attempts in a row.
        attempts: u32,
        /// Time of the last attempt.
        at: Timestamp,
    },
    /// There is no token, or none is needed any more.
    Gone,
}

impl TokenRecord {
    /// Returns the record after another failed removal.
    #[must_use]
    pub fn not_removed(self, at: Timestamp) -> Self {
        let before = if let Self::NotRemoved { attempts, .. } = self { attempts } else { 0 };
        Self::NotRemoved { attempts: before.saturating_add(1), at }
    }
}

/// The public part of a token: six characters of `a-z0-9`, also the suffix of the Secret's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenId(String);

/// A token ID and its secret. Debug output does not show the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: TokenId,
    secret: String,
}

/// Length of the secret part.
pub const SECRET_LENGTH: usize = 16;

/// Maximum number of IDs that are tried for a Machine. Collisions are rare, so five in a row have another cause.
pub const ATTEMPTS: u32 = 5;

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

impl TokenId {
    /// Returns the ID for a Machine. `attempt` selects an alternative.
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

    /// Returns the ID that MCM uses for a Machine of this name, or `None` for a name of fewer than five bytes.
    #[must_use]
    pub fn of_reference(machine: &str) -> Option<Self> {
        let bytes = machine.as_bytes();
        let tail = bytes.get(bytes.len().checked_sub(5)?..)?;
        let half = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or('0');
        Some(Self(tail.iter().take(3).flat_map(|byte| [half(byte >> 4), half(byte & 15)]).collect()))
    }

    /// Returns the name of the token's Secret.
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
    /// Creates a token from random bytes, one per character; `None` if there are not enough. Bytes that would make some
    /// characters more likely are skipped, so pass more bytes than characters.
    #[must_use]
    pub fn new(id: TokenId, random: &[u8]) -> Option<Self> {
        // 252 is the last multiple of 36 that a byte can hold.
        let secret: String =
            random.iter().filter(|byte| **byte < 252).take(SECRET_LENGTH).map(|byte| digit(u64::from(*byte))).collect();
        (secret.len() == SECRET_LENGTH).then_some(Self { id, secret })
    }

    /// Returns the token as the kubelet receives it: `id.secret`.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}.{}", self.id.0, self.secret)
    }

    /// The secret part.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The ID.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// Returns the data of the token's Secret.
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

/// What an existing Secret with a token's name contains.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// A valid token of this Machine.
    Usable(Token),
    /// An expired or invalid token of this Machine: delete it and create another one.
    Spent,
    /// A token of another Machine.
    Foreign,
}

/// Classifies the Secret that was found for `id`.
#[must_use]
pub fn judge(found: &SecretData, id: &TokenId, machine: &str, now: Timestamp) -> Finding {
    if found.text(names::DESCRIPTION) != Some(names::description(machine).as_str()) {
        return Finding::Foreign;
    }
    // A token without expiration is valid forever. The API server treats an expiration that cannot be parsed as
    // expired.
    let expired = found.text(names::EXPIRATION).is_some_and(|at| at.parse::<Timestamp>().map_or(true, |at| at <= now));
    let secret = found.text(names::TOKEN_SECRET).filter(|s| s.len() == SECRET_LENGTH);
    match secret {
        Some(secret) if !expired && found.text(names::TOKEN_ID) == Some(id.0.as_str()) => {
            Finding::Usable(Token { id: id.clone(), secret: secret.to_owned() })
        }
        _ => Finding::Spent,
    }
}

/// RFC 3339 without fractions, as MCM writes it and kubeadm reads it.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

fn digit(number: u64) -> char {
    let index = usize::try_from(number % 36).unwrap_or_default();
    DIGITS.get(index).map_or('0', |byte| char::from(*byte))
}

/// FNV-1a, followed by a finalizer that spreads every input bit over the result, because UIDs of one API server differ
/// in few bits.
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
    fn id_depends_only_on_uid_and_attempt() {
        let uid: Uid = "6d2c1f3e-0000-4000-8000-000000000001".into();
        assert_eq!(TokenId::of(&uid, 0), TokenId::of(&uid, 0));
        assert_ne!(TokenId::of(&uid, 0), TokenId::of(&uid, 1));
        assert_ne!(TokenId::of(&uid, 0), TokenId::of(&"6d2c1f3e-0000-4000-8000-000000000002".into(), 0));
    }

    #[test]
    fn ids_of_ten_thousand_machines_rarely_collide() {
        let ids: BTreeSet<_> =
            (0..10_000).map(|n| TokenId::of(&format!("6d2c1f3e-0000-4000-8000-{n:012}").as_str().into(), 0)).collect();
        assert!(ids.len() > 9_990, "{}", ids.len());
    }

    #[test]
    fn mcm_id_exists_for_names_of_five_bytes_or_more() {
        assert_eq!(TokenId::of_reference("machine-abcde").unwrap().to_string(), "616263");
        assert_eq!(TokenId::of_reference("abcd"), None);
    }

    #[test]
    fn secret_has_the_data_that_api_server_and_kubeadm_expect() {
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
    fn token_is_reused_only_by_its_machine_while_valid() {
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
    fn token_secret_is_not_in_debug_output() {
        let (_, token) = token("u");
        assert!(!format!("{token:?}").contains(token.secret()));
    }

    proptest! {
        #[test]
        fn token_has_the_format_that_kubelets_accept(uid in ".*", attempt in 0u32..9, random in prop::collection::vec(any::<u8>(), 0..64)) {
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
