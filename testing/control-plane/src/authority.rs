//! Certificates, made for one control plane and gone with it.
//!
//! Two authorities: one for the cluster, whose client certificates are users (common name) and their groups (organization),
//! and one for etcd, so that no user of the cluster, however mighty, has a certificate that opens the store behind it. The
//! certificates never expire: they live as long as the folder they are in, and a test under a strange clock must not fail.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// The number of the X.509 attribute that Kubernetes reads groups from.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// Somebody who talks to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name that RBAC and the audit log see.
    pub name: String,
    /// At most two groups; Kubernetes adds `system:authenticated` by itself.
    pub groups: Vec<String>,
}

impl User {
    /// A user in no group of its own.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new() }
    }

    /// The same user, also in `group`.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// May do everything.
    pub fn admin() -> Self {
        Self::named("millwright-admin").in_group("system:masters")
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The cryptography refused.
    #[error("failed to make a certificate for {whom}")]
    Make {
        /// Its subject.
        whom: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// The certificate library writes an attribute at most twice.
    #[error("failed to put {count} groups into the certificate of {whom}: at most two fit")]
    TooManyGroups {
        /// The user.
        whom: String,
        /// How many groups were asked for.
        count: usize,
    },
}

/// A certificate and its private key, as PEM. The key stays out of `Debug`.
#[derive(Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// An authority that signs certificates.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority.
    pub fn new(name: &str) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Make { whom: name.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = subject(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// What others need to trust it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its private key, for kube-controller-manager, which signs certificate requests.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// For a server on the loopback address. It is a client certificate too: etcd dials itself with it.
    pub fn server(&self, name: &str) -> Result<Identity, AuthorityError> {
        self.server_at(name, None)
    }

    /// The same for a server that has another address, too.
    pub fn server_at(&self, name: &str, also: Option<IpAddr>) -> Result<Identity, AuthorityError> {
        let mut params = subject(name);
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(also);
        params.subject_alt_names = addresses.map(SanType::IpAddress).collect();
        for host in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            let host = host.try_into().map_err(|source| AuthorityError::Make { whom: name.to_owned(), source })?;
            params.subject_alt_names.push(SanType::DnsName(host));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// For a client that is `user`.
    pub fn client(&self, user: &User) -> Result<Identity, AuthorityError> {
        let mut params = subject(&user.name);
        let name = &mut params.distinguished_name;
        // The library keeps one value per attribute, but does not see that the number and the name mean the same one.
        let mut attributes = [DnType::OrganizationName, DnType::CustomDnType(ORGANIZATION.to_vec())].into_iter();
        for group in &user.groups {
            let attribute = attributes
                .next()
                .ok_or_else(|| AuthorityError::TooManyGroups { whom: user.name.clone(), count: user.groups.len() })?;
            name.push(attribute, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&user.name, params)
    }

    fn sign(&self, whom: &str, mut params: CertificateParams) -> Result<Identity, AuthorityError> {
        let failed = |source| AuthorityError::Make { whom: whom.to_owned(), source };
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The pair that service-account tokens are signed with.
pub fn token_key() -> Result<(String, String), AuthorityError> {
    let key = KeyPair::generate()
        .map_err(|source| AuthorityError::Make { whom: "service account tokens".to_owned(), source })?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn subject(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::*;

    fn read<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
        let (_, block) = parse_x509_pem(pem.as_bytes()).unwrap();
        look(&block.parse_x509().unwrap())
    }

    #[test]
    fn a_client_certificate_says_user_and_groups() {
        let authority = Authority::new("cluster").unwrap();
        let user = User::named("jane").in_group("operators").in_group("readers");
        read(&authority.client(&user).unwrap().certificate, |certificate| {
            let subject = certificate.subject();
            let names: Vec<_> = subject.iter_common_name().map(|a| a.as_str().unwrap()).collect();
            let groups: Vec<_> = subject.iter_organization().map(|a| a.as_str().unwrap()).collect();
            assert_eq!((names, groups), (vec!["jane"], vec!["operators", "readers"]));
            let usage = certificate.extended_key_usage().unwrap().unwrap().value;
            assert!(usage.client_auth && !usage.server_auth);
        });
    }

    #[test]
    fn a_third_group_is_refused_and_not_forgotten() {
        let authority = Authority::new("cluster").unwrap();
        let user = ["a", "b", "c"].into_iter().fold(User::named("jane"), User::in_group);
        let error = authority.client(&user).unwrap_err().to_string();
        assert_eq!(error, "failed to put 3 groups into the certificate of jane: at most two fit");
    }

    /// Shows PLN-3.
    #[test]
    fn a_server_certificate_is_good_for_loopback_only() {
        let authority = Authority::new("cluster").unwrap();
        read(&authority.server("kube-apiserver").unwrap().certificate, |certificate| {
            let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
            let addresses: Vec<_> = names.iter().filter(|n| matches!(n, GeneralName::IPAddress(_))).collect();
            assert_eq!(addresses, [&GeneralName::IPAddress(&[127, 0, 0, 1])]);
            assert!(certificate.extended_key_usage().unwrap().unwrap().value.server_auth);
            assert!(!certificate.is_ca());
        });
    }

    #[test]
    fn what_one_authority_signs_the_other_does_not_know() {
        let (cluster, etcd) = (Authority::new("cluster").unwrap(), Authority::new("etcd").unwrap());
        let admin = cluster.client(&User::admin()).unwrap().certificate;
        read(&admin, |certificate| {
            let issuer_name = |pem: &str| read(pem, |ca| ca.subject().to_string());
            assert_eq!(certificate.issuer().to_string(), issuer_name(cluster.certificate()));
            assert_ne!(certificate.issuer().to_string(), issuer_name(etcd.certificate()));
        });
        read(cluster.certificate(), |certificate| assert!(certificate.is_ca()));
    }

    #[test]
    fn keys_stay_out_of_debug_output() {
        let authority = Authority::new("cluster").unwrap();
        let identity = authority.client(&User::admin()).unwrap();
        assert!(identity.key.contains("PRIVATE KEY"));
        assert!(!format!("{identity:?} {authority:?}").contains("PRIVATE KEY"));
    }
}
