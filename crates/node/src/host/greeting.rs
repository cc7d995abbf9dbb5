//! What a host asks its peers before it does anything: whether they have received more from its actor than
//! its journal holds. Then the journal was put back from an older copy, and whatever the actor did from it
//! would deny what it has said.
//!
//! A peer answers with the latest message that the actor itself has signed, so that no one is stopped by a
//! lie. A peer that does not answer is not waited for long; but it is sent nothing before it has answered, so
//! that what it answers later is about the time before the start. It is asked again as long as it is connected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use actix::{AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::actor::watermark::PeerWatermark;
use tenure_core::model::identity::ActorId;
use tenure_core::runtime::AnyActor;
use tenure_core::wire::message::Sealed;
use tenure_core::wire::message::Sequence;
use tracing::{debug, info};

use super::{Host, HostFailure};
use crate::transport::{Greeting, GreetingKind, Packet};

/// How long a host waits for its peers to answer its greeting.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How often a peer that is connected and has not answered is asked again.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// The most messages that wait for the answer of a peer. What does not fit is dropped: it is repeated.
const MOST_HELD: usize = 1024;

/// How often watermarks of peers are stored.
const KEPT_EVERY: Duration = Duration::from_secs(1);

/// A peer that has not answered since the start.
#[derive(Default)]
pub(super) struct Unheard {
    /// What is sent once it has answered.
    held: BTreeMap<Sequence, Packet>,
}

impl Unheard {
    /// Keeps a message until the answer, if there is room.
    fn hold(&mut self, packet: Packet) -> bool {
        let room = self.held.len() < MOST_HELD || self.held.contains_key(&packet.sequence);
        if room {
            self.held.insert(packet.sequence, packet);
        }
        room
    }
}

impl Host {
    /// Asks all reachable peers for their watermarks; nothing else happens until they have answered.
    pub(super) fn greet(&mut self, ctx: &mut Context<Self>) {
        let Some((run, _)) = &self.run else { return };
        let peers: Vec<ActorId> = run.actor().peers().keys().copied().collect();
        self.started_with = run.position();
        self.awaited =
            peers.into_iter().filter(|&peer| self.say(peer, GreetingKind::Hello)).collect();
        self.unheard = self.awaited.iter().map(|&peer| (peer, Unheard::default())).collect();
        if !self.awaited.is_empty() {
            let run = self.runs;
            ctx.run_later(TIMEOUT, move |host, ctx| host.greeting_timed_out(run, ctx));
            self.ask_again_later(ctx);
        }
        for peer in std::mem::take(&mut self.greeted_early) {
            self.reply(peer);
        }
    }

    /// Has the transport and the driver know what the actor knows of keys, and the transport the sites whose tickets it holds.
    pub(super) fn prepare_transport(&self) {
        let Some((run, _)) = &self.run else { return };
        let (id, actor) = (self.part.info.id, run.actor());
        self.transport.learn(id, actor.keys(), actor.secrets());
        if let Some(driver) = &self.part.driver {
            driver.acts_by(actor, id);
        }
        self.transport.introduce(id, actor.joined());
        match actor {
            AnyActor::ServiceManager(manager) => {
                let leases = manager.survey().filter_map(|lease| lease.state.lease());
                let held = leases.flat_map(|lease| lease.tickets());
                held.for_each(|ticket| self.transport.hold(id, ticket));
            }
            // The site tells a broker of recalls of what another broker lends it, and takes it back.
            AnyActor::Broker(broker) => {
                let lent = broker.holdings().map(|holding| holding.ticket);
                let lent = lent.filter(|ticket| ticket.links().len() > 1);
                lent.for_each(|ticket| self.transport.hold(id, ticket));
            }
            AnyActor::SiteAuthority(_) => {}
        }
    }

    fn say(&self, to: ActorId, says: GreetingKind) -> bool {
        self.transport.greet(Greeting { from: self.part.info.id, to, says })
    }

    /// Sends a peer the newest message received from it.
    fn reply(&mut self, peer: ActorId) {
        let Some((run, _)) = &self.run else {
            self.greeted_early.insert(peer);
            return;
        };
        let watermarks = run.actor().watermarks().of(peer);
        let kept = self.watermarks.of(peer);
        let longest = watermarks.into_iter().chain(kept).max_by_key(|word| word.len);
        self.say(peer, GreetingKind::Watermarks(longest.map(|word| word.sealed.clone())));
    }

    /// Stores the watermarks that changed since the last time.
    pub(super) fn save_watermarks(&mut self) {
        let Some((run, writer)) = &self.run else { return };
        let watermarks = run.actor().watermarks().iter();
        let changed = |&(peer, word): &(ActorId, &PeerWatermark)| {
            self.watermarks.of(peer).is_none_or(|kept| kept.len < word.len)
        };
        let changed: Vec<_> =
            watermarks.filter(changed).map(|(peer, word)| (peer, word.clone())).collect();
        for (peer, word) in &changed {
            self.watermarks.record(*peer, word.clone());
        }
        writer.save_watermarks(changed);
        self.watermarks_saved_at = Instant::now();
    }

    /// The same, if the last time is long enough ago.
    pub(super) fn keep_words_now_and_then(&mut self) {
        if self.watermarks_saved_at.elapsed() >= KEPT_EVERY {
            self.save_watermarks();
        }
    }

    /// A peer has answered. It was sent nothing since the start, so that what it has of this actor is older.
    fn receive_watermark(&mut self, peer: ActorId, word: Option<&Sealed>, ctx: &mut Context<Self>) {
        let Some((run, _)) = &mut self.run else { return };
        let Some(unheard) = self.unheard.remove(&peer) else { return };
        let holds = self.started_with;
        let actor = run.actor_mut();
        let to_peer = |word: &&Sealed| word.peek().is_ok_and(|said| said.header.to == peer);
        let witnessed = word.filter(to_peer).and_then(|word| actor.witnessed_len(word));
        if let Some(witnessed) = witnessed.filter(|&witnessed| witnessed > holds) {
            let peer =
                actor.peers().get(&peer).map_or_else(|| peer.to_string(), |p| p.name.to_string());
            return self.fail(ctx, HostFailure::RolledBack { peer, witnessed, holds });
        }
        for packet in unheard.held.into_values() {
            self.bring(packet);
        }
        if self.awaited.remove(&peer) {
            self.go_on(ctx);
        }
    }

    /// Sends a message, or keeps it until its receiver has answered; whether it did either.
    pub(super) fn send_or_hold(&mut self, packet: Packet) -> bool {
        let to = packet.to;
        let Some(unheard) = self.unheard.get_mut(&to) else { return self.transport.send(packet) };
        unheard.hold(packet)
    }

    /// The question, or the answer, may have been lost with a connection.
    fn ask_again_later(&mut self, ctx: &mut Context<Self>) {
        let run = self.runs;
        ctx.run_later(ASK_EVERY, move |host, ctx| {
            if run != host.runs || host.unheard.is_empty() {
                return;
            }
            for &peer in host.unheard.keys() {
                if host.transport.is_connected(host.part.info.id, peer) {
                    host.say(peer, GreetingKind::Hello);
                }
            }
            host.ask_again_later(ctx);
        });
    }

    fn greeting_timed_out(&mut self, run: u64, ctx: &mut Context<Self>) {
        if run != self.runs || self.awaited.is_empty() {
            return;
        }
        let (actor, silent) = (&self.part.info.name, self.awaited.len());
        info!(%actor, silent, "continues without answers from all peers");
        self.awaited.clear();
        self.go_on(ctx);
    }

    fn go_on(&mut self, ctx: &mut Context<Self>) {
        if self.awaited.is_empty() {
            debug!(actor = %self.part.info.name, "no peer knows of more than the journal holds");
            self.release(ctx);
            self.stir(ctx);
        }
    }
}

impl Handler<Greeting> for Host {
    type Result = ();

    fn handle(&mut self, greeting: Greeting, ctx: &mut Self::Context) {
        match greeting.says {
            GreetingKind::Hello => self.reply(greeting.from),
            GreetingKind::Watermarks(word) => {
                self.receive_watermark(greeting.from, word.as_ref(), ctx)
            }
        }
    }
}
