//! What a host asks its peers before it does anything: whether they have heard more of its actor than its
//! journal holds. Then the journal was put back from an older copy, and whatever the actor did from it would
//! deny what it has said.
//!
//! A peer answers with the latest message that the actor itself has signed, so that nobody is stopped by a
//! lie. A peer that does not answer is not waited for long.

use std::time::{Duration, Instant};

use actix::{AsyncContext as _, Context, Handler};
use tenure_core::actor::Actor as _;
use tenure_core::actor::watermark::PeerWatermark;
use tenure_core::model::identity::ActorId;
use tenure_core::wire::message::Sealed;
use tracing::{debug, info};

use super::{Fall, Host};
use crate::transport::{Greeting, Says};

/// How long a host waits for its peers to answer its greeting.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often what was heard of peers is kept.
const KEPT_EVERY: Duration = Duration::from_secs(1);

impl Host {
    /// Asks all peers within reach what they have heard; until they have answered nothing else is done.
    pub(super) fn greet(&mut self, ctx: &mut Context<Self>) {
        let Some((life, _)) = &self.life else { return };
        let peers: Vec<ActorId> = life.actor().peers().keys().copied().collect();
        self.awaited = peers.into_iter().filter(|&peer| self.say(peer, Says::Hello)).collect();
        if !self.awaited.is_empty() {
            let life = self.lives;
            ctx.run_later(PATIENCE, move |host, ctx| host.impatient(life, ctx));
        }
        for peer in std::mem::take(&mut self.greeted_early) {
            self.tell(peer);
        }
    }

    fn say(&self, to: ActorId, says: Says) -> bool {
        self.transport.greet(Greeting { from: self.part.card.id, to, says })
    }

    /// Tells a peer the last that was heard of it.
    fn tell(&mut self, peer: ActorId) {
        let Some((life, _)) = &self.life else {
            self.greeted_early.insert(peer);
            return;
        };
        let watermarks = life.actor().watermarks().of(peer);
        let kept = self.words.of(peer);
        let longest = watermarks.into_iter().chain(kept).max_by_key(|word| word.len);
        self.say(peer, Says::Watermarks(longest.map(|word| word.sealed.clone())));
    }

    /// Has the journal keep what was heard since the last time.
    pub(super) fn keep_words(&mut self) {
        let Some((life, writer)) = &self.life else { return };
        let watermarks = life.actor().watermarks().iter();
        let news = |&(peer, word): &(ActorId, &PeerWatermark)| {
            self.words.of(peer).is_none_or(|kept| kept.len < word.len)
        };
        let news: Vec<_> =
            watermarks.filter(news).map(|(peer, word)| (peer, word.clone())).collect();
        for (peer, word) in &news {
            self.words.record(*peer, word.clone());
        }
        writer.keep_words(news);
        self.words_kept = Instant::now();
    }

    /// The same, if the last time is long enough ago.
    pub(super) fn keep_words_now_and_then(&mut self) {
        if self.words_kept.elapsed() >= KEPT_EVERY {
            self.keep_words();
        }
    }

    /// A peer has answered.
    fn told(&mut self, peer: ActorId, word: Option<&Sealed>, ctx: &mut Context<Self>) {
        let Some((life, _)) = &mut self.life else { return };
        if !self.awaited.remove(&peer) {
            return;
        }
        let holds = life.position();
        let actor = life.actor_mut();
        let said = word.and_then(|word| actor.witnessed_len(word)).unwrap_or(0);
        if said > holds {
            let peer =
                actor.peers().get(&peer).map_or_else(|| peer.to_string(), |p| p.name.to_string());
            return self.fall(ctx, Fall::RolledBack { peer, said, holds });
        }
        self.go_on(ctx);
    }

    fn impatient(&mut self, life: u64, ctx: &mut Context<Self>) {
        if life != self.lives || self.awaited.is_empty() {
            return;
        }
        let (actor, silent) = (&self.part.card.name, self.awaited.len());
        info!(%actor, silent, "goes on without having heard from all peers");
        self.awaited.clear();
        self.go_on(ctx);
    }

    fn go_on(&mut self, ctx: &mut Context<Self>) {
        if self.awaited.is_empty() {
            debug!(actor = %self.part.card.name, "nobody knows of more than the journal holds");
            self.release(ctx);
            self.stir(ctx);
        }
    }
}

impl Handler<Greeting> for Host {
    type Result = ();

    fn handle(&mut self, greeting: Greeting, ctx: &mut Self::Context) {
        match greeting.says {
            Says::Hello => self.tell(greeting.from),
            Says::Watermarks(word) => self.told(greeting.from, word.as_ref(), ctx),
        }
    }
}
