//! TLS 1.3 between actors that know each other by their Ed25519 keys alone (raw public keys, RFC 7250).
//!
//! The key of a hop says who is at the other end, and nothing more: authority comes from the signatures
//! on what is sent.
//!
//! Keys change while peers cannot be reached. So each side shows the key that the other knows to be in
//! force: the dialler names how many of the other's statements about keys it knows.

use std::sync::Arc;
use std::{fmt, io};

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer as TlsSigner, SigningKey};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName,
    Error, InvalidMessage, PeerMisbehaved, ServerConfig, SignatureAlgorithm, SignatureScheme,
};
use tenure_core::model::identity::{ActorId, PublicKey, Signer};

use super::hub::Hub;
use super::session::Ends;

/// What both sides must offer, so that no other protocol is taken for this one.
pub(super) const PROTOCOL: &[u8] = b"tenure/1";

/// What stands before the 32 bytes of an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// An actor's key, as TLS uses it.
#[derive(Clone)]
struct HopKey(Signer);

impl fmt::Debug for HopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SigningKey for HopKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn TlsSigner>> {
        let can = offered.contains(&SignatureScheme::ED25519);
        can.then(|| Box::new(self.clone()) as Box<dyn TlsSigner>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(spki(&self.0.key()).into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl TlsSigner for HopKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign_handshake(message).as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

fn spki(key: &PublicKey) -> Vec<u8> {
    [&SPKI_PREFIX[..], key.as_bytes()].concat()
}

/// The key in a `SubjectPublicKeyInfo`.
fn key_in(spki: &[u8]) -> Result<PublicKey, Error> {
    let key = spki.strip_prefix(&SPKI_PREFIX).and_then(|key| <[u8; 32]>::try_from(key).ok());
    key.map(PublicKey::from_bytes).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// The key at the other end of a connection whose handshake is done.
pub(super) fn peer_key(certificates: Option<&[CertificateDer<'_>]>) -> Option<PublicKey> {
    key_in(certificates?.first()?).ok()
}

/// The key of an actor as rustls takes it, for programs that speak the protocol of frames.
pub fn certified(signer: &Signer) -> Arc<CertifiedKey> {
    let key = HopKey(signer.clone());
    Arc::new(CertifiedKey::new(vec![spki(&signer.key()).into()], Arc::new(key)))
}

/// The name under which an actor is asked for: its id, in labels that are short enough for a host name, and
/// how many of its statements about its keys are known.
pub(super) fn server_name(id: ActorId, statements: u32) -> Result<ServerName<'static>, Error> {
    let hex = id.to_hex();
    let (first, second) = hex.split_at(hex.len() / 2);
    ServerName::try_from(format!("{first}.{second}.{statements}.tenure"))
        .map_err(|error| Error::General(error.to_string()))
}

/// The digits of the id in such a name, and how many statements are known.
pub(super) fn name_in(name: &str) -> Option<(String, u32)> {
    let (id, statements) = name.strip_suffix(".tenure")?.rsplit_once('.')?;
    Some((id.replacen('.', "", 1), statements.parse().ok()?))
}

/// What was wrong with who is at the other end of a handshake.
pub(super) enum Cause {
    /// The actor that was asked for is not there.
    Nobody,
    /// It has shown another actor's key.
    OtherKey,
}

/// The cause of a failed handshake, where it is the other side's identity.
pub(super) fn cause(error: &io::Error) -> Option<Cause> {
    let error: &Error = error.get_ref()?.downcast_ref()?;
    // `ByName` has found nobody: the dialler hears of it by an alert.
    let nobody = matches!(error, Error::AlertReceived(AlertDescription::AccessDenied))
        || matches!(error, Error::General(_));
    let other = CertificateError::ApplicationVerificationFailure;
    if nobody {
        return Some(Cause::Nobody);
    }
    (*error == Error::InvalidCertificate(other)).then_some(Cause::OtherKey)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// How an actor dials another one, which must show a key that is known to be its own.
///
/// # Errors
/// If the provider of cryptography lacks TLS 1.3.
pub(super) fn client(
    signer: &Signer,
    hub: &Arc<Hub>,
    Ends { here, there }: Ends,
) -> Result<Arc<ClientConfig>, Error> {
    let hub = Arc::clone(hub);
    client_of(signer, move |key| hub.owner(here, key) == Some(there))
}

/// How who has this key dials somebody who must show a key that is expected.
///
/// # Errors
/// If the provider of cryptography lacks TLS 1.3.
pub(super) fn client_of(
    signer: &Signer,
    expected: impl Fn(&PublicKey) -> bool + Send + Sync + 'static,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let verifier = KeyVerifier {
        algorithms: provider.signature_verification_algorithms,
        expected: Box::new(expected),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(
            signer,
        ))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// How actors that listen at one address are dialled. Any key may knock: who it is, and what it may, is
/// decided afterwards.
///
/// # Errors
/// If the provider of cryptography lacks TLS 1.3.
pub(super) fn server(hub: &Arc<Hub>) -> Result<Arc<ServerConfig>, Error> {
    server_of(Arc::new(ByName(Arc::clone(hub))))
}

/// As [`server`], for one who has a single key.
///
/// # Errors
/// If the provider of cryptography lacks TLS 1.3.
pub(super) fn server_with(signer: &Signer) -> Result<Arc<ServerConfig>, Error> {
    server_of(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(signer))))
}

fn server_of(keys: Arc<dyn ResolvesServerCert>) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider();
    let verifier = KeyVerifier {
        algorithms: provider.signature_verification_algorithms,
        expected: Box::new(|_| true),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(keys);
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Shows the key of the actor that is asked for.
struct ByName(Arc<Hub>);

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let (id, statements) = name_in(hello.server_name()?)?;
        let here = self.0.actors.keys().find(|actor| actor.to_hex() == id)?;
        Some(certified(&self.0.secret(*here, statements)?))
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

/// Takes raw Ed25519 keys that are expected.
struct KeyVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    expected: Box<dyn Fn(&PublicKey) -> bool + Send + Sync>,
}

impl fmt::Debug for KeyVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyVerifier")
    }
}

impl KeyVerifier {
    fn check(&self, spki: &[u8], others: &[CertificateDer<'_>]) -> Result<(), Error> {
        if !others.is_empty() {
            return Err(PeerMisbehaved::BadCertChainExtensions.into());
        }
        let expected = (self.expected)(&key_in(spki)?);
        let unknown = CertificateError::ApplicationVerificationFailure;
        if expected { Ok(()) } else { Err(Error::InvalidCertificate(unknown)) }
    }
}

/// What both sides check of a handshake.
macro_rules! checks_of_handshakes {
    () => {
        /// TLS 1.2 is not offered, and refused where it is spoken all the same.
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let what = "a signature of TLS 1.2";
            Err(Error::InvalidMessage(InvalidMessage::UnexpectedMessage(what)))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key, others).map(|()| ServerCertVerified::assertion())
    }

    checks_of_handshakes!();
}

impl ClientCertVerifier for KeyVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key, others).map(|()| ClientCertVerified::assertion())
    }

    checks_of_handshakes!();
}
