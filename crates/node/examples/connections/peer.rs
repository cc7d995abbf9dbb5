//! Peers that have a network and mailboxes, and no actors behind them.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use actix::{Actor, ArbiterHandle, Context, Handler};
use tenure_core::actor::Role;
use tenure_core::model::identity::{Scheme, Signer};
use tenure_core::model::name::Name;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Term};
use tenure_core::ticket::Ticket;
use tenure_core::ticket::link::{Clauses, Link, SignedLink};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::{Envelope, Header, Message, Sequence};
use tenure_node::clock::WallClock;
use tenure_node::host::Limits;
use tenure_node::net::frame::{Frame, Hello, read_frame};
use tenure_node::net::{Listen, LocalActor, Network, NetworkSettings, Remote, certified};
use tenure_node::transport::{Exchange, Greeting, Line, Packet, Transport as _};
use tenure_wait::{DEADLINE, eventually_async};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::bare;
use super::common::now;

/// The secret of one of many.
pub(super) fn signer(index: u32) -> Signer {
    let mut seed = [0x51; 32];
    seed[..4].copy_from_slice(&index.to_be_bytes());
    Signer::from_seed(Scheme::Ed25519, seed)
}

fn name(index: u32) -> Name {
    Name::new(&format!("peer-{index}")).unwrap()
}

/// The site is the first, guests are the others.
fn role(index: u32) -> Role {
    if index == 0 { Role::SiteAuthority } else { Role::ServiceManager }
}

/// A network, and the mailboxes behind it.
pub(super) struct Peer {
    pub(super) network: Network,
    exchange: Exchange,
}

/// A mailbox, and what is done with what comes.
struct Mailbox<F>(F);

impl<F: FnMut(Packet) + Unpin + 'static> Actor for Mailbox<F> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        context.set_mailbox_capacity(Limits::default().inbox);
    }
}

impl<F: FnMut(Packet) + Unpin + 'static> Handler<Packet> for Mailbox<F> {
    type Result = ();

    fn handle(&mut self, packet: Packet, _: &mut Self::Context) {
        (self.0)(packet);
    }
}

impl<F: FnMut(Packet) + Unpin + 'static> Handler<Greeting> for Mailbox<F> {
    type Result = ();

    fn handle(&mut self, _: Greeting, _: &mut Self::Context) {}
}

impl Peer {
    /// Those here with those there, who are dialled at an address or dial.
    pub(super) fn start(
        here: &[u32],
        there: &[u32],
        listen: Option<SocketAddr>,
        dialled: Option<SocketAddr>,
    ) -> Self {
        let actors = here.iter().map(|&index| LocalActor {
            name: name(index),
            role: role(index),
            signer: signer(index),
        });
        let remotes = there.iter().map(|&index| Remote {
            id: signer(index).id(),
            name: name(index),
            role: role(index),
            address: dialled.map(|at| at.to_string()),
        });
        let settings = NetworkSettings {
            listen: listen.map(Listen::At),
            actors: actors.collect(),
            remotes: remotes.collect(),
            ..Default::default()
        };
        let exchange = Exchange::new();
        let around = (exchange.clone(), Arc::new(WallClock::new()) as Arc<_>);
        let network = Network::start(&settings, around).unwrap();
        Self { network, exchange }
    }

    /// What one of those here does with what comes, on a thread.
    pub(super) fn hears(
        &self,
        index: u32,
        what: impl FnMut(Packet) + Send + Unpin + 'static,
        thread: &ArbiterHandle,
    ) {
        let mailbox = Mailbox::start_in_arbiter(thread, |_| Mailbox(what));
        let (packets, greetings) = (mailbox.clone().recipient(), mailbox.recipient());
        self.exchange.connect(signer(index).id(), Line { packets, greetings });
    }

    /// Whatever comes to one of those here from the first guest is answered with as much.
    pub(super) fn echoes(&self, index: u32, thread: &ArbiterHandle) {
        let (network, answer) = (self.network.clone(), message(index, 1));
        self.hears(index, move |_| send(&network, &answer), thread);
    }

    pub(super) fn count_connected(&self) -> usize {
        self.network.connections().filter(|line| line.standing.connected).count()
    }

    /// Waits until so many are connected.
    pub(super) async fn connected(&self, count: usize) {
        let all = async || self.count_connected() >= count;
        eventually_async(10 * DEADLINE, "connections", all).await;
    }
}

/// A message of usual length: a grant of a ticket.
pub(super) fn message(from: u32, to: u32) -> Packet {
    let (signer, holder) = (signer(from), signer(to).id());
    let link = Link {
        parent: None,
        issuer: signer.id(),
        holder,
        resource: Name::literal("node"),
        units: NonZeroU32::MIN,
        term: Term::new(now(), now().plus(Span::HOUR)).unwrap(),
        constraints: Constraints::default(),
        clauses: Clauses::NONE,
        delegation: None,
        extends: None,
        serial: 1,
    };
    let ticket = Ticket::root_of(SignedLink::sign(link, &signer));
    let request = RequestId { origin: holder, number: 1 };
    let message = Message::Granted { request, tickets: vec![(0, ticket)] };
    let sequence = Sequence { position: 1, index: 0 };
    let header = Header { from: signer.id(), to: holder, sequence, at: now() };
    let (from, to, kind) = (header.from, header.to, message.kind());
    let sealed = Envelope { header, message }.seal(&mut Credentials::new(signer));
    Packet { from, to, sequence, kind, sealed }
}

/// Has a message leave.
pub(super) fn send(network: &Network, packet: &Packet) {
    assert!(network.send(packet.clone()), "there is room for it");
}

/// The bytes of a frame with this message alone.
pub(super) fn frame_bytes(packet: &Packet) -> usize {
    Frame::Messages(vec![packet.sealed.clone()]).to_bytes().len()
}

/// A connection of one of many to the first, without a network: both have said who they are.
pub(super) async fn dial(address: SocketAddr, index: u32) -> TlsStream<TcpStream> {
    let (own, there) = (signer(index), signer(0).id());
    let hex = there.to_hex();
    let name = format!("{}.{}.0.tenure", &hex[..32], &hex[32..]);
    let mut stream = bare::connect(address, certified(&own), &name).await;
    let hello = Frame::Hello(Hello::new(own.id(), there));
    stream.write_all(&hello.to_bytes()).await.unwrap();
    let said = read_frame(&mut stream, 1 << 10).await.unwrap();
    assert!(matches!(said, Some((Frame::Hello(_), _))), "it says hello");
    stream
}
