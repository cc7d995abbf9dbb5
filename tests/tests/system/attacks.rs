//! What strangers and false peers try on a site's port, and how each is turned away. The site serves on.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use tenure_core::model::identity::{ActorId, Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term, Time};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence, Subject};
use tenure_node::net::certified;
use tenure_node::net::frame::{Frame, Hello};
use tenure_wait::{DEADLINE, eventually};

use crate::deployment::Deployment;
use crate::network::Apart;

/// How long an attacker waits for what the site says.
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
    address: String,
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

impl Target {
    fn of(site: &Deployment, address: String) -> Self {
        let micros = std::time::UNIX_EPOCH.elapsed().expect("a time").as_micros();
        let now = Time::from_micros(i64::try_from(micros).expect("in this age"));
        Self { address, site: secret(site.data.path(), "alpha"), now }
    }

    fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the site listens");
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

    fn tls(&self, signer: &Signer, name: &str, protocols: &[&[u8]]) -> Tls {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let resolver = AlwaysResolvesClientRawPublicKeys::new(certified(signer));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_client_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
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
        self.tls(signer, &self.name(), &[b"tenure/1"])
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

    fn message(&self, from: ActorId, message: Message) -> Vec<u8> {
        let sequence = Sequence { position: 1, index: 0 };
        let header = Header { from, to: self.site.id(), sequence, at: self.now };
        let sealed = Envelope { header, message }.seal(&mut Credentials::new(unknown()));
        Frame::Messages(vec![sealed]).to_bytes()
    }
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

/// An attack, and what the site says to it.
type Attack = (&'static str, &'static str, fn(&Target) -> String);

const ATTACKS: &[Attack] = &[
    ("plain HTTP", "closed", |site| site.raw(b"GET / HTTP/1.1\r\nHost: site\r\n\r\n")),
    ("noise", "closed", |site| site.raw(&[0x5a; 4096])),
    ("a record that announces more than any may be", "closed", |site| {
        site.raw(&[22, 3, 1, 0xff, 0xff, 1, 0, 0, 0])
    }),
    ("TLS 1.2", "closed", |site| {
        let hello = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2b, 1, 0]].concat();
        let length = u8::try_from(hello.len()).expect("short");
        site.raw(&[&[22, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat())
    }),
    ("another protocol", "closed", |site| {
        heard(site.tls(&unknown(), &site.name(), &[b"h2"]), &[site.hello(&unknown())])
    }),
    ("no protocol", "closed", |site| {
        heard(site.tls(&unknown(), &site.name(), &[]), &[site.hello(&unknown())])
    }),
    ("asks for nobody who is here", "closed", |site| {
        let name = format!("{}.{}.0.tenure", "0".repeat(32), "0".repeat(32));
        heard(site.tls(&unknown(), &name, &[b"tenure/1"]), &[site.hello(&unknown())])
    }),
    ("an unknown key", "has shown no ticket", |site| {
        site.says(&unknown(), &[site.hello(&unknown())])
    }),
    ("an unknown key with a message", "has shown no ticket", |site| {
        site.says(&unknown(), &[site.message(unknown().id(), Message::Ping)])
    }),
    ("a ticket that is none", "cannot be read", |site| {
        site.says(&unknown(), &[frame(6, &[0xff; 100])])
    }),
    ("a first frame of 4 GiB", "longer than", |site| {
        site.says(&unknown(), &[vec![0xff, 0xff, 0xff, 0xff, 6]])
    }),
    ("a ticket of more than 64 KiB", "longer than", |site| {
        site.says(&unknown(), &[vec![0, 1, 0, 1, 6]])
    }),
    ("a frame of no bytes", "no bytes", |site| site.says(&unknown(), &[vec![0; 4]])),
    ("a stolen ticket", "is void", |site| {
        site.says(&unknown(), &[site.ticket(&other()), site.hello(&unknown())])
    }),
    ("a ticket of another site", "is void", |site| {
        let link = site.link(unknown().id(), &other(), Span::HOUR);
        let ticket = Ticket::root_of(SignedLink::sign(link, &other()));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
    ("a ticket that another has signed in the site's name", "is void", |site| {
        let link = site.link(unknown().id(), &site.site, Span::HOUR);
        let ticket = Ticket::root_of(SignedLink::sign(link, &other()));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
    ("a ticket that has ended", "has ended", |site| {
        let link = site.link(unknown().id(), &site.site, Span::HOUR.times(-2));
        let ticket = Ticket::root_of(SignedLink::sign(link, &site.site));
        site.says(&unknown(), &[Frame::Ticket(ticket).to_bytes()])
    }),
    ("a holder who speaks for another", "closed", |site| {
        let hello = Frame::Hello(Hello::new(other().id(), site.site.id())).to_bytes();
        site.says(&unknown(), &[site.ticket(&unknown()), hello])
    }),
    ("a holder who means another site", "closed", |site| {
        let hello = Frame::Hello(Hello::new(unknown().id(), other().id())).to_bytes();
        site.says(&unknown(), &[site.ticket(&unknown()), hello])
    }),
    ("a holder who speaks versions to come", "speaks versions 7 to 9", |site| {
        let hello = Hello { oldest: 7, newest: 9, ..Hello::new(unknown().id(), site.site.id()) };
        site.says(&unknown(), &[site.ticket(&unknown()), Frame::Hello(hello).to_bytes()])
    }),
    ("a holder who asks for clocks", "closed", |site| {
        site.holder_says(&[site.message(unknown().id(), Message::Ping)])
    }),
    ("a holder who hands in another's message", "closed", |site| {
        site.holder_says(&[site.message(other().id(), Message::Ping)])
    }),
    ("a holder who says hello twice", "closed", |site| site.holder_says(&[site.hello(&unknown())])),
    ("a holder's frame of 4 GiB", "closed", |site| {
        site.holder_says(&[vec![0xff, 0xff, 0xff, 0xff, 1]])
    }),
    ("a holder's messages that are none", "closed", |site| {
        site.holder_says(&[frame(1, &[0xff; 64])])
    }),
    ("a holder's card that is none", "closed", |site| site.holder_says(&[frame(7, &[1; 9])])),
];

/// What the site's log says of those that it does not tell why.
const LOGGED: [&str; 9] = [
    "its handshake failed",
    "it did not name the protocol",
    "it speaks for",
    "who is not here",
    "may not say `ping`",
    "a message of",
    "a frame of 4294967295 bytes",
    "a `messages` frame cannot be read",
    "a `card` frame cannot be read",
];

fn secret(folder: &Path, actor: &str) -> Signer {
    let text = fs::read_to_string(folder.join("keys").join(actor)).expect("a key");
    let digits = text.trim();
    let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
    Signer::from_seed(Scheme::Ed25519, std::array::from_fn(byte))
}

#[test]
fn who_speaks_later_versions_too_is_served_in_version_1() {
    let Apart { site, broker: _broker, guest: _guest, address, .. } = Apart::start();
    let target = Target::of(&site, address);
    let holder = unknown();
    // It asks for what it has no right to, and is told so in words that version 1 has.
    let link = target.link(other().id(), &target.site, Span::HOUR);
    let ticket = Ticket::root_of(SignedLink::sign(link, &target.site));
    let hello = Hello { newest: 9, ..Hello::new(holder.id(), target.site.id()) };
    let redeem = Message::Redeem {
        ticket: ticket.clone(),
        lease: LeaseId { number: 1, part: 0 },
        slice: Name::literal("main"),
        min_units: NonZeroU32::MIN,
        configuration: Properties::default(),
        victims: Vec::new(),
    };
    let mut stream = target.tls(&holder, &target.name(), &[b"tenure/2", b"tenure/1"]);
    for frame in [
        target.ticket(&holder),
        Frame::Hello(hello).to_bytes(),
        frame(200, b"what a later version has to say"),
        target.message(holder.id(), redeem),
    ] {
        stream.write_all(&frame).expect("it is read");
    }
    let Ok(Frame::Hello(said)) = next(&mut stream) else { panic!("no hello") };
    assert_eq!(said.agreed(), Some(1), "{said:?}");
    let answer = loop {
        if let Frame::Messages(messages) = next(&mut stream).expect("an answer") {
            break messages[0].peek().expect("a message").message;
        }
    };
    let Message::Refused { subject, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(subject, Subject::Ticket(ticket.hash()));
}

#[test]
fn every_attack_is_turned_away_and_the_site_serves_on() {
    let Apart { site, broker: _broker, guest, address, .. } = Apart::start();
    guest.json("lease request 1 --for 1h --wait");
    let target = Target::of(&site, address);
    // The holder of a good ticket is let in: what follows is turned away for what it is.
    let mut holder = target.caller(&unknown());
    for said in [target.ticket(&unknown()), target.hello(&unknown())] {
        holder.write_all(&said).expect("it is read");
    }
    assert!(matches!(next(&mut holder), Ok(Frame::Hello(_))));
    drop(holder);
    let mut wrong = Vec::new();
    for (name, expected, attack) in ATTACKS {
        let said = attack(&target);
        if !said.contains(expected) {
            wrong.push(format!("{name}: `{said}` is not `{expected}`"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for cause in LOGGED {
        eventually(DEADLINE, cause, || site.log().contains(cause));
    }
    // None of them has changed anything, and who is known is served.
    assert_eq!(site.json("site list")[0]["leased"], 1);
    eventually(DEADLINE, "the guest to be served", || {
        guest.tenure("lease extend 1 --for 10m --wait").status.success()
    });
    guest.json("lease close 1 --wait");
    site.becomes_clean();
}
