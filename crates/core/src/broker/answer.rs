//! How a broker carries out its mapper's choices.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::allocation::{self, Part, check_grant, check_offer};
use super::{Broker, Output};
use crate::actor::Emit as _;
use crate::actor::fact::truncate_text;
use crate::broker::facts::{OffersHeld, RequestPlanned, RequestQueued, RequestRefused, TicketsCut};
use crate::broker::machine::State;
use crate::broker::mapper::{Allocation, Choice, Verdict};
use crate::model::codec::encode;
use crate::model::slice::RequestId;
use crate::model::time::{Span, Term, Time};
use crate::ticket::link::LinkHash;
use crate::wire::offer::{
    Booking, MAX_BOOKINGS, MAX_OFFER_BYTES, MAX_OFFERS, Offer, Reply, Waiting,
};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

/// The longest refusal of a mapper's, in bytes.
const MAX_REFUSAL: usize = 1 << 13;

/// The most sources that are looked through for bookings in the way.
const SOURCES_SEEN: usize = 16;

/// The most bookings of one source that are looked at.
const BOOKINGS_SEEN: usize = 64;

impl Broker {
    pub(super) fn carry_out(
        &mut self,
        now: Time,
        choice: Choice,
        out: &mut Output,
    ) -> Result<(), String> {
        let id = choice.request;
        if self.is_in_portions(id) {
            return self.carry_out_portion(now, choice, out);
        }
        let Some(State::Open { request, .. }) = self.request(id) else {
            return Err(format!("request {id} is not open"));
        };
        let (request, reason) = (Arc::clone(request), choice.reason);
        match (choice.verdict, request.reply) {
            (Verdict::Refuse { refusal, offers }, _) => {
                if encode(&refusal).len() > MAX_REFUSAL {
                    return Err(format!("the refusal of {id} is longer than {MAX_REFUSAL} bytes"));
                }
                let offers = self.plain_offers(now, &request, &offers)?;
                let refusal = self.with_bookings(refusal, &request);
                self.refuse_with(now, id, refusal, offers, reason, out);
            }
            (Verdict::Grant(allocation), Reply::Grant) => {
                check_grant(&request, &allocation, now, self.base.two_margins())?;
                self.check_extensions(&request, &allocation.parts)?;
                let parts = self.parts_of(&request, &allocation, &mut self.drafts(now))?;
                let units: Vec<_> = parts.iter().map(Part::booked).collect();
                if let Some(quota) = self.state.quotas.exceeded(self.answers_for(id), &units, now) {
                    self.refuse(now, id, quota, reason, out);
                    return Ok(());
                }
                let mut serial = self.state.serial;
                let tickets = self.cut_tickets(&request, &parts, &mut serial)?;
                let reason = truncate_text(&reason);
                self.emit(now, TicketsCut { request: id, tickets, reason }, out);
                self.repeat_answer(id, out);
            }
            // Who has handed it on goes on to look for what was asked for.
            (Verdict::Offer { offers, refusal: Some(refusal) }, Reply::Plan | Reply::Hold(_))
                if self.handed_by(id).is_some() =>
            {
                let offers = self.plain_offers(now, &request, &offers)?;
                let refusal = self.with_bookings(refusal, &request);
                self.refuse_with(now, id, refusal, offers, reason, out);
            }
            (Verdict::Grant(allocation), Reply::Plan) => {
                self.plan(now, &request, (&[allocation], None), reason, out)?;
            }
            (Verdict::Offer { offers, refusal }, Reply::Plan) => {
                self.plan(now, &request, (&offers, refusal), reason, out)?;
            }
            (Verdict::Grant(allocation), Reply::Hold(span)) => {
                self.hold(now, &request, (&[allocation], None), span, reason, out)?;
            }
            (Verdict::Offer { offers, refusal }, Reply::Hold(span)) => {
                self.hold(now, &request, (&offers, refusal), span, reason, out)?;
            }
            (Verdict::Offer { .. }, Reply::Grant) => {
                return Err(format!("request {id} asks for tickets, not for offers"));
            }
            (Verdict::Pass(to), _) => self.pass(now, (id, to), &reason, out)?,
            (Verdict::Keep { portion, refusal }, Reply::Grant) => {
                self.keep(now, id, (&portion, Some(refusal)), &reason, out)?;
            }
            (Verdict::Keep { .. }, Reply::Plan | Reply::Hold(_)) => {
                return Err(format!("request {id} asks for offers of one broker's"));
            }
            (Verdict::Wait(waiting), Reply::Grant) => self.wait(now, id, waiting, out),
            (Verdict::Wait(_), Reply::Plan | Reply::Hold(_)) => {
                return Err(format!("request {id} asks for offers as things stand"));
            }
        }
        Ok(())
    }

    /// A request waits; a fact only if it stands elsewhere than before.
    fn wait(&mut self, now: Time, id: RequestId, waiting: Waiting, out: &mut Output) {
        let waiting = Waiting { reason: truncate_text(&waiting.reason), ..waiting };
        let Some(State::Open { waiting: before, .. }) = self.request(id) else { return };
        if before.as_ref() != Some(&waiting) {
            self.emit(now, RequestQueued { request: id, waiting }, out);
            self.repeat_answer(id, out);
        }
    }

    fn plan(
        &mut self,
        now: Time,
        request: &Request,
        (offers, refusal): (&[Allocation], Option<Refusal>),
        reason: String,
        out: &mut Output,
    ) -> Result<(), String> {
        let mut offers = self.plain_offers(now, request, offers)?;
        if refusal.is_some() {
            offers = self.nearest_heard(request.id, offers);
        }
        let refusal = refusal.map(|refusal| self.with_bookings(refusal, request));
        let reason = truncate_text(&reason);
        self.emit(now, RequestPlanned { request: request.id, offers, refusal, reason }, out);
        self.repeat_answer(request.id, out);
        Ok(())
    }

    fn hold(
        &mut self,
        now: Time,
        request: &Request,
        (offers, refusal): (&[Allocation], Option<Refusal>),
        span: Span,
        reason: String,
        out: &mut Output,
    ) -> Result<(), String> {
        let id = request.id;
        let answers = self.answers_for(id);
        let held = self.usage_of(answers).held;
        if let Some(refusal) = self.state.quotas.no_more_held(answers, held) {
            self.refuse(now, id, refusal, reason, out);
            return Ok(());
        }
        check_count(offers)?;
        // Nothing is held of an offer that nobody could use any more.
        let ends = offers.iter().map(|offer| offer.term.end().minus(self.base.two_margins()));
        let until = ends.fold(now.plus(span), Time::min);
        let mut drafts = self.drafts(now);
        let mut all = Vec::new();
        for offer in offers {
            check_offer(request, offer, now, self.base.two_margins())?;
            all.push(self.parts_of(request, offer, &mut drafts)?);
        }
        let units: Vec<_> = all.iter().flatten().map(Part::booked).collect();
        if let Some(quota) = self.state.quotas.exceeded(answers, &units, now) {
            self.refuse(now, id, quota, reason, out);
            return Ok(());
        }
        let (mut serial, mut held) = (self.state.serial, Vec::new());
        for parts in &all {
            held.push(self.cut_tickets(request, parts, &mut serial)?);
        }
        let refusal = refusal.map(|refusal| self.with_bookings(refusal, request));
        let reason = truncate_text(&reason);
        self.emit(now, OffersHeld { request: id, offers: held, until, refusal, reason }, out);
        self.repeat_answer(id, out);
        Ok(())
    }

    /// Offers in plain values, each checked as if it were granted alone.
    fn plain_offers(
        &self,
        now: Time,
        request: &Request,
        offers: &[Allocation],
    ) -> Result<Vec<Offer>, String> {
        if offers.len() > MAX_OFFERS {
            return Err(format!("{} offers are more than {MAX_OFFERS}", offers.len()));
        }
        let plain = |offer: &Allocation| {
            check_offer(request, offer, now, self.base.two_margins())?;
            let parts = self.parts_of(request, offer, &mut self.drafts(now))?;
            Ok(allocation::offer_of(&parts))
        };
        let offers: Vec<Offer> = offers.iter().map(plain).collect::<Result<_, String>>()?;
        if encode(&offers).len() > MAX_OFFER_BYTES {
            return Err(format!("the offers to {} are too long", request.id));
        }
        Ok(offers)
    }

    /// The refusal with the bookings that are in the way, if it is for what is not free.
    fn with_bookings(&self, refusal: Refusal, request: &Request) -> Refusal {
        let mut refusal = refusal;
        if let Refusal::Busy { resource, in_the_way, .. } = &mut refusal
            && let Ok(term) = Term::lasting(request.earliest, request.duration)
        {
            *in_the_way = self.bookings(resource, term);
        }
        refusal
    }

    /// The biggest bookings of a type that lie in a term, as far as a short look finds them.
    fn bookings(&self, resource: &crate::model::name::Name, term: Term) -> Vec<Booking> {
        let middle = term.start().as_micros().midpoint(term.end().as_micros());
        let instants = [term.start(), Time::from_micros(middle)];
        let mut found: BTreeMap<LinkHash, Booking> = BTreeMap::new();
        for account in self.index.accounts_of(resource).take(SOURCES_SEEN) {
            for at in instants {
                for link in self.state.ledger.running_at(account, at).take(BOOKINGS_SEEN) {
                    found.entry(link.hash()).or_insert_with(|| Booking {
                        holder: link.holder,
                        resource: link.resource.clone(),
                        units: link.units.get(),
                        term: link.term,
                    });
                }
            }
        }
        let mut found: Vec<Booking> = found.into_values().collect();
        found.sort_by_key(|booking| (std::cmp::Reverse(booking.units), booking.term.end()));
        found.truncate(MAX_BOOKINGS);
        found
    }

    pub(super) fn refuse(
        &mut self,
        now: Time,
        id: RequestId,
        refusal: Refusal,
        reason: String,
        out: &mut Output,
    ) {
        self.refuse_with(now, id, refusal, Vec::new(), reason, out);
    }

    fn refuse_with(
        &mut self,
        now: Time,
        request: RequestId,
        refusal: Refusal,
        offers: Vec<Offer>,
        reason: String,
        out: &mut Output,
    ) {
        let reason = truncate_text(&reason);
        let offers = self.nearest_heard(request, offers);
        self.let_go(now, request, out);
        self.emit(now, RequestRefused { request, refusal, offers, reason }, out);
        self.repeat_answer(request, out);
    }
}

fn check_count(offers: &[Allocation]) -> Result<(), String> {
    if offers.is_empty() || offers.len() > MAX_OFFERS {
        return Err(format!("1 to {MAX_OFFERS} offers are held, not {}", offers.len()));
    }
    Ok(())
}
