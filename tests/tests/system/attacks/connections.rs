//! Connections: other protocols, false handshakes, handshakes of another time.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::sign::{CertifiedKey, Signer as TlsSigner, SigningKey};
use rustls::{Error, HandshakeKind, SignatureAlgorithm, SignatureScheme};
use tenure_core::model::identity::Signer;
use tenure_node::net::certified;

use super::{
    Attack, Target, Tls, all_are_turned_away, are_logged, heard, next, other, serves_on, speaker,
    unknown,
};
use crate::network::Apart;

/// A key whose secret the attacker does not have: it signs with its own.
struct Borrowed {
    shown: Arc<CertifiedKey>,
    own: Signer,
}

impl fmt::Debug for Borrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

impl SigningKey for Borrowed {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn TlsSigner>> {
        Some(Box::new(Forger(self.own.clone())))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.shown.key.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

struct Forger(Signer);

impl fmt::Debug for Forger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TlsSigner for Forger {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign_handshake(message).as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// The site is its own peer's key, in the hands of one who has seen only its public half.
fn with_the_key_of_another(site: &Target) -> Tls {
    let shown = certified(&other());
    let key = Borrowed { shown: Arc::clone(&shown), own: unknown() };
    let key = Arc::new(CertifiedKey::new(shown.cert.clone(), Arc::new(key)));
    site.tls(speaker(Some(key), &[b"tenure/1"]), &site.name())
}

/// A session of before is taken up again, with words in its first packet.
fn resumed(site: &Target) -> String {
    let config = Arc::new(speaker(Some(certified(&unknown())), &[b"tenure/1"]));
    let connect = || {
        let name = site.name().try_into().expect("a name");
        let connection = rustls::ClientConnection::new(Arc::clone(&config), name);
        let mut stream = Tls::new(connection.expect("a connection"), site.tcp());
        let early = stream.conn.early_data().is_some();
        stream.write_all(&site.ticket(&unknown())).expect("it is read");
        stream.write_all(&site.hello(&unknown())).expect("it is read");
        next(&mut stream).expect("a hello");
        (early, stream.conn.handshake_kind())
    };
    connect();
    match connect() {
        (false, Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest)) => {
            "a handshake as if for the first time".to_owned()
        }
        (early, kind) => format!("early data {early}, {kind:?}"),
    }
}

/// What a good caller has sent, packet by packet: its handshake, then its ticket and its hello in a record each.
fn packets(site: &Target) -> (Tls, Vec<Vec<u8>>) {
    let mut stream = site.caller(&unknown());
    let mut sent = Vec::new();
    while stream.conn.is_handshaking() || stream.conn.wants_write() {
        let mut packet = Vec::new();
        while stream.conn.wants_write() {
            stream.conn.write_tls(&mut packet).expect("memory");
        }
        stream.sock.write_all(&packet).expect("it is read");
        sent.push(packet);
        if stream.conn.is_handshaking() {
            stream.conn.read_tls(&mut stream.sock).expect("an answer");
            stream.conn.process_new_packets().expect("a handshake");
        }
    }
    for frame in [site.ticket(&unknown()), site.hello(&unknown())] {
        stream.conn.writer().write_all(&frame).expect("memory");
        let mut packet = Vec::new();
        stream.conn.write_tls(&mut packet).expect("memory");
        sent.push(packet);
    }
    (stream, sent)
}

/// What is answered to these of its packets, after the handshake.
fn after_handshake(site: &Target, choose: fn(&[u8], &[u8]) -> Vec<u8>) -> String {
    let (mut stream, sent) = packets(site);
    let [.., ticket, hello] = &sent[..] else { panic!("{} packets", sent.len()) };
    stream.sock.write_all(&choose(ticket, hello)).expect("it is read");
    stream.sock.shutdown(std::net::Shutdown::Write).expect("it is open");
    let said = heard(stream, &[]);
    // What cannot be deciphered is answered by an alert; what is cut short, by nothing or by a last word.
    if said.contains("ticket") { "closed".to_owned() } else { said }
}

fn played_again(site: &Target) -> String {
    let (mut stream, sent) = packets(site);
    for packet in &sent[sent.len() - 2..] {
        stream.sock.write_all(packet).expect("it is read");
    }
    next(&mut stream).expect("a hello");
    let mut again = site.tcp();
    drop(again.write_all(&sent.concat()));
    let mut answer = Vec::new();
    drop(again.read_to_end(&mut answer));
    // The server speaks its part of the handshake, and finds that nobody follows it: an alert ends it.
    let records = std::iter::successors(Some(&answer[..]), |rest| {
        let [_, _, _, high, low, ..] = rest else { return None };
        rest.get(5 + usize::from(u16::from_be_bytes([*high, *low]))..)
    });
    match records.filter(|rest| !rest.is_empty()).last() {
        Some([21 | 23, _, _, 0, length, ..]) if *length < 32 => "closed by an alert".to_owned(),
        last => format!("{} bytes, the last {last:?}", answer.len()),
    }
}

const ATTACKS: &[Attack<Target>] = &[
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
        let config = speaker(Some(certified(&unknown())), &[b"h2"]);
        heard(site.tls(config, &site.name()), &[site.hello(&unknown())])
    }),
    ("no protocol", "closed", |site| {
        let config = speaker(Some(certified(&unknown())), &[]);
        heard(site.tls(config, &site.name()), &[site.hello(&unknown())])
    }),
    ("no key", "closed", |site| {
        let config = speaker(None, &[b"tenure/1"]);
        heard(site.tls(config, &site.name()), &[site.hello(&unknown())])
    }),
    ("the key of another, without its secret", "closed", |site| {
        heard(with_the_key_of_another(site), &[site.hello(&other())])
    }),
    ("asks for nobody who is here", "closed", |site| {
        let config = speaker(Some(certified(&unknown())), &[b"tenure/1"]);
        let name = format!("{}.{}.0.tenure", "0".repeat(32), "0".repeat(32));
        heard(site.tls(config, &name), &[site.hello(&unknown())])
    }),
    ("asks for a name of another kind", "closed", |site| {
        let config = speaker(Some(certified(&unknown())), &[b"tenure/1"]);
        let name = site.name().replace(".tenure", ".example");
        heard(site.tls(config, &name), &[site.hello(&unknown())])
    }),
    ("knows more of the site's keys than there can be", "closed", |site| {
        let config = speaker(Some(certified(&unknown())), &[b"tenure/1"]);
        let name = site.name().replace(".0.", ".4294967296.");
        heard(site.tls(config, &name), &[site.hello(&unknown())])
    }),
    ("asks for no name", "closed", |site| {
        let config = speaker(Some(certified(&unknown())), &[b"tenure/1"]);
        heard(site.tls(config, "127.0.0.1"), &[site.hello(&unknown())])
    }),
    ("early data in a session of before", "as if for the first time", resumed),
    ("a connection that is played again", "closed by an alert", played_again),
    ("records in another order", "closed", |site| {
        after_handshake(site, |ticket, hello| [hello, ticket].concat())
    }),
    ("a record that is sent twice", "closed", |site| {
        after_handshake(site, |ticket, hello| [ticket, ticket, hello].concat())
    }),
    ("a record that is cut short", "closed", |site| {
        after_handshake(site, |ticket, _| ticket[..ticket.len() / 2].to_vec())
    }),
    ("a record with a bit that was changed", "closed", |site| {
        after_handshake(site, |ticket, hello| {
            let mut bytes = [ticket, hello].concat();
            let middle = ticket.len() / 2;
            bytes[middle] ^= 1;
            bytes
        })
    }),
];

/// What the site's log says of them.
const LOGGED: &[&str] =
    &["its handshake failed", "it did not name the protocol", "has shown no ticket"];

#[test]
fn false_connections_are_turned_away() {
    let apart = Apart::start();
    apart.guest.json("lease request 1 --for 1h --wait");
    let target = Target::of(&apart.site, &apart.address);
    target.lets_holders_in();
    all_are_turned_away(ATTACKS, &target);
    are_logged(&apart.site, LOGGED);
    serves_on(apart);
}
