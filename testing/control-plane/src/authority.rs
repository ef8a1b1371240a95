//! Certificates of one control plane, removed with it.
//!
//! There are two CAs: one for the cluster, whose client certificates contain users (common name) and groups
//! (organization), and one for etcd, so that no user of the cluster can access etcd. The certificates do not expire:
//! they are removed with the folder, and tests with another clock must not fail.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// The OID of the X.509 attribute that Kubernetes reads groups from.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// A user of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user name for RBAC and the audit log.
    pub name: String,
    /// At most two groups; Kubernetes adds `system:authenticated`.
    pub groups: Vec<String>,
}

impl User {
    /// Creates a user without groups.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), groups: Vec::new() }
    }

    /// Adds a group.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// Returns the administrator.
    pub fn admin() -> Self {
        Self::named("millwright-admin").in_group("system:masters")
    }
}

/// A failure to create a certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate library returned an error.
    #[error("failed to create a certificate for {subject}")]
    Make {
        /// Its subject.
        subject: String,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// The certificate library writes an attribute at most twice.
    #[error("failed to add {count} groups to the certificate of {subject}: at most two are possible")]
    TooManyGroups {
        /// The user.
        subject: String,
        /// The number of groups.
        count: usize,
    },
}

/// A certificate and its private key as PEM. `Debug` does not print the key.
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

/// A CA.
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
    /// Creates a CA.
    pub fn new(name: &str) -> Result<Self, AuthorityError> {
        let failed = |source| AuthorityError::Make { subject: name.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = subject(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self { certificate, issuer: Issuer::new(params, key) })
    }

    /// Returns the certificate of the CA.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the private key, for kube-controller-manager, which signs certificate requests.
    pub fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Signs a certificate of a server on loopback. It is also a client certificate, because etcd connects to itself.
    pub fn server(&self, name: &str) -> Result<Identity, AuthorityError> {
        self.server_at(name, None)
    }

    /// The same with another address of the server.
    pub fn server_at(&self, name: &str, also: Option<IpAddr>) -> Result<Identity, AuthorityError> {
        let mut params = subject(name);
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST)].into_iter().chain(also);
        params.subject_alt_names = addresses.map(SanType::IpAddress).collect();
        for host in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            let host = host.try_into().map_err(|source| AuthorityError::Make { subject: name.to_owned(), source })?;
            params.subject_alt_names.push(SanType::DnsName(host));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// Signs a client certificate of a user.
    pub fn client(&self, user: &User) -> Result<Identity, AuthorityError> {
        let mut params = subject(&user.name);
        let name = &mut params.distinguished_name;
        // The library keeps one value per attribute, but does not detect that the OID and the name are the same
        // attribute.
        let mut attributes = [DnType::OrganizationName, DnType::CustomDnType(ORGANIZATION.to_vec())].into_iter();
        for group in &user.groups {
            let attribute = attributes.next().ok_or_else(|| AuthorityError::TooManyGroups {
                subject: user.name.clone(),
                count: user.groups.len(),
            })?;
            name.push(attribute, group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&user.name, params)
    }

    fn sign(&self, user: &str, mut params: CertificateParams) -> Result<Identity, AuthorityError> {
        let failed = |source| AuthorityError::Make { subject: user.to_owned(), source };
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// Creates the key pair for service-account tokens.
pub fn token_key() -> Result<(String, String), AuthorityError> {
    let key = KeyPair::generate()
        .map_err(|source| AuthorityError::Make { subject: "service account tokens".to_owned(), source })?;
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
    fn a_client_certificate_contains_user_and_groups() {
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
    fn a_third_group_is_rejected() {
        let authority = Authority::new("cluster").unwrap();
        let user = ["a", "b", "c"].into_iter().fold(User::named("jane"), User::in_group);
        let error = authority.client(&user).unwrap_err().to_string();
        assert_eq!(error, "failed to add 3 groups to the certificate of jane: at most two are possible");
    }

    /// Shows PLN-3.
    #[test]
    fn a_server_certificate_is_valid_for_loopback_only() {
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
    fn certificates_of_the_two_authorities_are_separate() {
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
