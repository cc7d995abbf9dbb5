//! What strangers and false peers try on a process, and how each is turned away. The process serves on.
//!
//! The rows of each table: the attack, what is said to it, and how it is done.

mod connections;
mod endorsements;
mod files;
mod frames;
mod load;
mod rights;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence};
use tenure_node::net::certified;
use tenure_node::net::frame::{Frame, Hello};
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::Deployment;
use crate::network::Apart;

/// How long an attacker waits for what is said to it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes any key that is shown.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
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

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The site that is attacked.
struct Target {
    address: SocketAddr,
    /// Its secret: what only the site can sign, an attacker could have seen.
    site: Signer,
    now: Time,
}

/// A key that nobody knows.
fn unknown() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [0xa7; 32])
}

fn other() -> Signer {
    Signer::from_seed(Scheme::Ed25519, [0xb8; 32])
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// How TLS is spoken by an attacker with a key, or without one.
fn speaker(key: Option<Arc<CertifiedKey>>, protocols: &[&[u8]]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = match key {
        Some(key) => {
            builder.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)))
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.resumption = Resumption::in_memory_sessions(8);
    config.enable_early_data = true;
    config
}

impl Target {
    fn of(site: &Deployment, address: &str) -> Self {
        let micros = std::time::UNIX_EPOCH.elapsed().expect("a time").as_micros();
        let now = Time::from_micros(i64::try_from(micros).expect("in this age"));
        let address = address.parse().expect("an address");
        Self { address, site: secret(site.data.path(), "alpha"), now }
    }

    fn tcp(&self) -> TcpStream {
        self.tcp_from(Ipv4Addr::LOCALHOST)
    }

    /// A connection from another address of this machine.
    fn tcp_from(&self, from: Ipv4Addr) -> TcpStream {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        let from = SocketAddr::new(IpAddr::V4(from), 0);
        rustix::net::bind(&socket, &from).expect("an address of this machine");
        rustix::net::connect(&socket, &self.address).expect("the site listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        stream
    }

    /// What is answered to bytes that are no TLS, if anything but an alert.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.tcp();
        drop(stream.write_all(bytes));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        // A TLS alert is record type 21.
        if answer.is_empty() || answer[0] == 21 {
            "closed".to_owned()
        } else {
            "answered".to_owned()
        }
    }

    fn tls(&self, config: ClientConfig, name: &str) -> Tls {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        StreamOwned::new(connection, self.tcp())
    }

    /// The name under which the site is asked for.
    fn name(&self) -> String {
        let hex = self.site.id().to_hex();
        format!("{}.{}.0.tenure", &hex[..32], &hex[32..])
    }

    fn caller(&self, signer: &Signer) -> Tls {
        self.tls(speaker(Some(certified(signer)), &[b"tenure/1"]), &self.name())
    }

    /// What the site says at last to a caller who says this.
    fn says(&self, signer: &Signer, frames: &[Vec<u8>]) -> String {
        heard(self.caller(signer), frames)
    }

    fn hello(&self, signer: &Signer) -> Vec<u8> {
        Frame::Hello(Hello::new(signer.id(), self.site.id())).to_bytes()
    }

    /// A link that the site may have signed.
    fn link(&self, holder: ActorId, site: &Signer, ends: Span) -> Link {
        Link {
            parent: None,
            issuer: site.id(),
            holder,
            resource: Name::literal("node"),
            units: NonZeroU32::MIN,
            term: Term::new(self.now.minus(Span::DAY), self.now.plus(ends)).expect("a term"),
            constraints: Constraints::default(),
            clauses: Clauses { not_on: BTreeSet::new(), ..Clauses::NONE },
            delegation: None,
            extends: None,
            serial: 1,
        }
    }

    fn ticket(&self, holder: &Signer) -> Vec<u8> {
        let link = self.link(holder.id(), &self.site, Span::HOUR);
        Frame::Ticket(Ticket::root_of(SignedLink::sign(link, &self.site))).to_bytes()
    }

    /// What is said to the good holder of a ticket who goes on with this.
    fn holder_says(&self, frames: &[Vec<u8>]) -> String {
        let holder = unknown();
        let shown = [self.ticket(&holder), self.hello(&holder)];
        self.says(&holder, &[&shown[..], frames].concat())
    }

    /// A message in the name of an actor, signed by another one.
    fn envelope(&self, from: ActorId, position: u64, message: Message) -> Envelope {
        let sequence = Sequence { position, index: 0 };
        Envelope { header: Header { from, to: self.site.id(), sequence, at: self.now }, message }
    }

    fn message(&self, from: ActorId, message: Message) -> Vec<u8> {
        messages(&self.envelope(from, 1, message), &unknown())
    }

    /// The holder of a good ticket is let in: what follows is turned away for what it is.
    fn lets_holders_in(&self) {
        let mut holder = self.caller(&unknown());
        for said in [self.ticket(&unknown()), self.hello(&unknown())] {
            holder.write_all(&said).expect("it is read");
        }
        assert!(matches!(next(&mut holder), Ok(Frame::Hello(_))));
    }
}

/// A frame with one message.
fn messages(envelope: &Envelope, signer: &Signer) -> Vec<u8> {
    Frame::Messages(vec![envelope.seal(&mut Credentials::new(signer.clone()))]).to_bytes()
}

/// Sends frames, and reads until the other side leaves: its last words, or `closed`.
fn heard(mut stream: Tls, frames: &[Vec<u8>]) -> String {
    for frame in frames {
        if stream.write_all(frame).and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    loop {
        match next(&mut stream) {
            Ok(Frame::Bye(why)) => return why,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return "open".to_owned(),
            Err(_) => return "closed".to_owned(),
        }
    }
}

fn next(stream: &mut Tls) -> io::Result<Frame> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap_or(0)];
    stream.read_exact(&mut bytes)?;
    Frame::read(&bytes).map_err(io::Error::other)
}

/// Bytes as a frame of a kind, with their length in front.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 1).expect("short").to_be_bytes();
    [&length[..], &[kind], body].concat()
}

/// An attack on what `T` has, what is said to it, and how it is done.
type Attack<T> = (&'static str, &'static str, fn(&T) -> String);

/// Makes every attack of a table.
fn all_are_turned_away<T>(attacks: &[Attack<T>], target: &T) {
    let mut wrong = Vec::new();
    for (name, expected, attack) in attacks {
        let said = attack(target);
        if !said.contains(expected) {
            wrong.push(format!("{name}: `{said}` is not `{expected}`"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The causes are in the log: those that are not told why are not to be a riddle to the site's operator.
fn are_logged(site: &Deployment, causes: &[&str]) {
    for cause in causes {
        eventually(DEADLINE, cause, || site.log().contains(cause));
    }
}

/// The secret of an actor.
fn secret(folder: &Path, actor: &str) -> Signer {
    let text = fs::read_to_string(folder.join("keys").join(actor)).expect("a key");
    let digits = text.trim();
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
    Signer::from_seed(Scheme::Ed25519, std::array::from_fn(byte))
}

/// Nothing has changed at the site of a guest with one unit, who is served on.
fn serves_on(Apart { site, broker: _broker, guest, .. }: Apart) {
    assert_eq!(site.json("site list")[0]["leased"], 1);
    eventually(DEADLINE, "the guest to be served", || {
        guest.tenure("lease extend 1 --for 10m --wait").status.success()
    });
    guest.json("lease close 1 --wait");
    site.becomes_clean();
}
