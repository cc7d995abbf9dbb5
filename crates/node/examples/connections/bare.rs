//! TLS by the same settings with nothing on top: raw Ed25519 keys on both sides, no resumption.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::common::apart::ANYWHERE;

/// What stands before the 32 bytes of a secret key (RFC 8410).
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Takes any key that signs the handshake.
#[derive(Debug)]
struct AnyKey(Arc<CryptoProvider>);

macro_rules! checks {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            let algorithms = &self.0.signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    checks!();
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    checks!();
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A key that rustls signs with itself.
fn key() -> Arc<CertifiedKey> {
    let secret = PrivatePkcs8KeyDer::from([&PKCS8_PREFIX[..], &[0x52; 32]].concat());
    let key = ring::sign::any_eddsa_type(&secret).unwrap();
    let public = key.public_key().unwrap().to_vec();
    Arc::new(CertifiedKey::new(vec![public.into()], key))
}

fn client(key: Arc<CertifiedKey>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyKey(provider())))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    config.alpn_protocols = vec![b"tenure/1".to_vec()];
    config.resumption = Resumption::disabled();
    config
}

fn server() -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::new(AnyKey(provider())))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key())));
    config.alpn_protocols = vec![b"tenure/1".to_vec()];
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config
}

/// A connection as the holder of a key.
pub(super) async fn connect(
    address: SocketAddr,
    key: Arc<CertifiedKey>,
    name: &str,
) -> client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(client(key))).connect(name, stream).await.unwrap()
}

/// A connection to a bare listener, which has taken it.
pub(super) async fn dial(address: SocketAddr) -> client::TlsStream<TcpStream> {
    let mut stream = connect(address, key(), "listener.tenure").await;
    stream.read_u8().await.unwrap();
    stream
}

/// Sends back what comes.
async fn answer(mut stream: server::TlsStream<TcpStream>) -> std::io::Result<()> {
    stream.write_u8(1).await?;
    stream.flush().await?;
    // An idle connection has a small buffer: what comes is taken in pieces of what one frame here has.
    let mut some = vec![0; 1 << 10];
    loop {
        let count = stream.read(&mut some).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&some[..count]).await?;
        stream.flush().await?;
    }
}

/// A thread that takes connections, and sends back what comes.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
}

impl Listener {
    /// Until the process ends.
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind(ANYWHERE).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let acceptor = TlsAcceptor::from(Arc::new(server()));
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move { answer(acceptor.accept(stream).await?).await });
                }
            });
        });
        Self { address }
    }
}

/// How long so many frames take to come back on one connection, so many on their way at a time.
pub(super) async fn echo(at: SocketAddr, bytes: usize, (window, count): (u32, u32)) -> Duration {
    let mut stream = dial(at).await;
    let (frame, mut back) = (vec![7; bytes], vec![0; bytes]);
    let began = Instant::now();
    for _ in 0..window {
        stream.write_all(&frame).await.unwrap();
        stream.flush().await.unwrap();
    }
    for number in 1..=count {
        stream.read_exact(&mut back).await.unwrap();
        if number + window <= count {
            stream.write_all(&frame).await.unwrap();
            stream.flush().await.unwrap();
        }
    }
    began.elapsed()
}
