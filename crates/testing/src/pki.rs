//! Certificates made for one test.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use tempfile::TempDir;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// An authority that issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub struct Issued {
    pub cert: String,
    pub key: String,
}

/// The statements of a certificate about its owner.
#[derive(Clone, Copy, Default)]
pub struct Subject<'a> {
    pub common_name: &'a str,
    pub dns: &'a [&'a str],
    pub uri: &'a [&'a str],
    /// The year, month and day of its end; years from now if there is none.
    pub ends: Option<(i32, u8, u8)>,
}

/// A client.
pub const CLIENT: Subject<'static> = Subject {
    common_name: "client",
    dns: &[],
    uri: &[],
    ends: None,
};

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.self_signed(&key).expect("a root");
        Self {
            pem: cert.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn issue(&self, subject: Subject<'_>) -> Issued {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !subject.common_name.is_empty() {
            let name = subject.common_name;
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let dns = subject
            .dns
            .iter()
            .map(|name| SanType::DnsName((*name).try_into().expect("a DNS name")));
        let uri = subject
            .uri
            .iter()
            .map(|name| SanType::URI((*name).try_into().expect("a URI")));
        params.subject_alt_names = dns.chain(uri).collect();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if let Some((year, month, day)) = subject.ends {
            params.not_before = rcgen::date_time_ymd(2019, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, month, day);
        }
        self.sign(params)
    }

    /// A certificate for 127.0.0.1.
    pub fn local(&self) -> Issued {
        self.sign(CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name"))
    }

    fn sign(&self, params: CertificateParams) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a signature");
        Issued {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    /// The certificate of a server on this machine.
    pub fn server(&self) -> Issued {
        self.issue(Subject {
            common_name: "server",
            dns: &["localhost", "evenkeel.test"],
            ..Subject::default()
        })
    }

    /// A client's settings that trust this authority.
    pub fn trusted(&self) -> ClientTlsConfig {
        ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.pem))
            .domain_name("evenkeel.test")
    }
}

impl Issued {
    pub fn identity(&self) -> Identity {
        Identity::from_pem(&self.cert, &self.key)
    }
}

/// Files of one test, by name.
pub struct Files(TempDir);

impl Default for Files {
    fn default() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }
}

impl Files {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path of `name` as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().expect("a plain path").to_owned()
    }

    /// Writes a file whole or not at all, because a server may be reading it.
    pub fn write(&self, name: &str, text: &str) -> String {
        let new = self.path(&format!("{name}.new"));
        fs::write(&new, text).expect("it can be written");
        fs::rename(new, self.path(name)).expect("it can be renamed");
        self.arg(name)
    }

    /// The flags of a server that asks its clients for certificates of its own authority.
    pub fn mutual_tls_flags(&self, authority: &Authority) -> Vec<String> {
        let mut flags = self.tls_flags(&authority.server());
        let ca = self.write("ca.crt", authority.pem());
        flags.extend(["--tls-client-ca".into(), ca]);
        flags
    }

    /// Writes a server's certificate and key. Returns the flags that name them.
    pub fn tls_flags(&self, issued: &Issued) -> Vec<String> {
        vec![
            "--tls-cert".into(),
            self.write("tls.crt", &issued.cert),
            "--tls-key".into(),
            self.write("tls.key", &issued.key),
        ]
    }
}
