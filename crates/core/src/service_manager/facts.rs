//! The facts of a service manager.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use crate::actor::Role;
use crate::actor::fact::{Memo, facts};
use crate::driver::UnitId;
use crate::model::identity::ActorId;
use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::slice::{LeaseId, SliceName};
use crate::model::time::{Span, Term, Time};
use crate::service::definition::Definition;
use crate::service::kpi::Kpis;
use crate::service::member::{MemberId, Members};
use crate::service::slo::Met;
use crate::service_manager::advice::Advice;
use crate::service_manager::ambiguity::{Claim, Claimant, Rule};
use crate::service_manager::consult::GateAnswer;
use crate::service_manager::group::{Handling, Why};
use crate::service_manager::hosts::OtherClaim;
use crate::service_manager::machine::AfterLeave;
use crate::service_manager::plan::{Lacking, Placed, PlanNode, PlanOutcome, PlanRequest};
use crate::service_manager::sequence::Gate;
use crate::service_manager::services::{Found, SiteUnit};
use crate::ticket::Ticket;
use crate::ticket::link::{LinkHash, SignedLink};
use crate::ticket::receipt::Receipt;
use crate::wire::hosts::{Contest, Hosts};
use crate::wire::message::LeasedUnit;
use crate::wire::need::Need;
use crate::wire::offer::{Offer, Waiting};
use crate::wire::part::Part;
use crate::wire::recall::{Level, Notice};
use crate::wire::refusal::Refusal;
use crate::wire::request::Request;

facts! {
    of Role::ServiceManager;

    /// A signal was read.
    SignalObserved = "service-manager.signal-observed" 1 {
        /// Its name.
        signal: Name,
        /// Its value.
        value: i64,
    }

    /// The mapper's round has ended; what it decided are the facts before this one.
    MapperAnswered = "service-manager.mapper-answered" 1 {
        /// The round.
        round: u64,
        /// What the mapper wants to remember, if that changed.
        memo: Option<Memo>,
        /// When it wants to be asked again, whatever happens.
        wake: Option<Time>,
    }

    /// A broker is asked for tickets.
    Asked = "service-manager.asked" 1 {
        /// Whom.
        broker: ActorId,
        /// The slice it is for.
        slice: SliceName,
        /// What.
        request: Request,
        /// For the site's driver.
        configuration: Properties,
        /// What becomes of its tickets.
        handling: Handling,
        /// The lease that is to grow by it.
        grows: Option<LeaseId>,
        /// Why, in the mapper's or the user's words.
        reason: String,
    }

    /// The broker cut tickets; each becomes a lease.
    Granted = "service-manager.granted" 1 {
        /// The number of the request.
        number: u64,
        /// The tickets, each with the item it is for.
        tickets: Vec<(u16, Ticket)>,
    }

    /// The broker refused.
    AskRefused = "service-manager.ask-refused" 1 {
        /// The number of the request.
        number: u64,
        /// Why.
        refusal: Refusal,
        /// What could be had instead.
        offers: Vec<Offer>,
    }

    /// The request waits at the broker, or stands elsewhere in the queue than before.
    Queued = "service-manager.queued" 1 {
        /// The number of the request.
        number: u64,
        /// Where it stands.
        waiting: Waiting,
        /// The place in the broker's journal of what it says: what comes late is older.
        position: u64,
    }

    /// The broker said how the request can be met: what it holds, or a plan.
    Offered = "service-manager.offered" 1 {
        /// The number of the request.
        number: u64,
        /// The offers, the best first.
        offers: Vec<Offer>,
        /// Until when they are held; nothing is held of a plan.
        until: Option<Time>,
        /// Why the request cannot be met as it is, if so.
        refusal: Option<Refusal>,
    }

    /// The tickets of an offer that is held are asked for.
    Accepted = "service-manager.accepted" 1 {
        /// The number of the request.
        number: u64,
        /// Which offer, from 1.
        offer: u8,
    }

    /// It was withdrawn, or no answer can be of use any more.
    GaveUp = "service-manager.gave-up" 1 {
        /// The number of the request.
        number: u64,
    }

    /// A ticket was brought by the user, not by a broker; it becomes a lease.
    TicketTaken = "service-manager.ticket-taken" 1 {
        /// The lease.
        lease: LeaseId,
        /// The ticket.
        ticket: Ticket,
        /// The slice it is for.
        slice: SliceName,
        /// For the site's driver.
        configuration: Properties,
        /// Whether it is kept, and not redeemed at once.
        keep: bool,
    }

    /// A ticket that was kept is redeemed.
    RedeemBegun = "service-manager.redeem-begun" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// Parts of a ticket that is kept were handed on.
    TicketsSplit = "service-manager.tickets-split" 1 {
        /// The lease.
        lease: LeaseId,
        /// The links below its ticket, one for each part.
        links: Vec<SignedLink>,
    }

    /// What was handed on came back to its site, and can be handed on again.
    ReceiptTaken = "service-manager.receipt-taken" 1 {
        /// The site's word.
        receipt: Receipt,
    }

    /// Several brokers are each asked to hold their items of one request, all from one start on.
    GroupAsked = "service-manager.group-asked" 1 {
        /// The number of the group: that of the first of its requests. There is one for each broker, in the order
        /// of their first items.
        group: u64,
        /// The attempt before, if there was one.
        before: Option<u64>,
        /// The start of this attempt.
        start: Time,
        /// What is asked for, with the window of starts and how long it is to be held. Its tries count the attempts.
        request: Request,
        /// Of each item, whom to ask.
        brokers: Vec<ActorId>,
        /// How many attempts there are at most.
        tries: u32,
        /// The sites at which attempts before have failed.
        avoid: BTreeSet<ActorId>,
        /// The slice it is for.
        slice: SliceName,
        /// For the sites' drivers.
        configuration: Properties,
        /// What becomes of the tickets.
        handling: Handling,
        /// Why, in the mapper's or the user's words.
        reason: String,
    }

    /// All brokers hold the items of a group: these offers are accepted.
    GroupHeld = "service-manager.group-held" 1 {
        /// The number of the group.
        group: u64,
        /// Which offer of each broker, from 1.
        offers: Vec<u8>,
    }

    /// All tickets of a group are there: they are redeemed.
    GroupGranted = "service-manager.group-granted" 1 {
        /// The number of the group.
        group: u64,
    }

    /// All leases of a group have their units.
    GroupWhole = "service-manager.group-whole" 1 {
        /// The number of the group.
        group: u64,
    }

    /// A group cannot be whole any more: the leases that are left are given back.
    GroupBroken = "service-manager.group-broken" 1 {
        /// The number of the group.
        group: u64,
        /// Why.
        why: Why,
    }

    /// The site handed over the units.
    Leased = "service-manager.leased" 1 {
        /// The lease.
        lease: LeaseId,
        /// The term granted.
        term: Term,
        /// The units.
        units: Vec<LeasedUnit>,
    }

    /// The site did not honour the ticket.
    RedeemRefused = "service-manager.redeem-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// Why.
        refusal: Refusal,
    }

    /// The guest's software uses a unit, or cannot.
    Joined = "service-manager.joined" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Set if it cannot.
        error: Option<String>,
    }

    /// A broker is asked for an extension.
    ExtensionAsked = "service-manager.extension-asked" 1 {
        /// The lease.
        lease: LeaseId,
        /// Whom.
        broker: ActorId,
        /// What.
        request: Request,
        /// Of a request for fewer units: those that do not go on.
        victims: Vec<UnitId>,
        /// Why.
        reason: String,
    }

    /// The broker issued the extension.
    ExtensionGranted = "service-manager.extension-granted" 1 {
        /// The lease.
        lease: LeaseId,
        /// The ticket.
        ticket: Ticket,
    }

    /// No extension: refused, or unanswered. The lease stays as it was.
    ExtensionDenied = "service-manager.extension-denied" 1 {
        /// The lease.
        lease: LeaseId,
        /// Why, if known.
        refusal: Option<Refusal>,
    }

    /// The site took the new ticket.
    Extended = "service-manager.extended" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// A part of a lease is to go back to its site.
    ReturnBegun = "service-manager.return-begun" 1 {
        /// The lease.
        lease: LeaseId,
        /// Which part.
        part: Part,
        /// Why.
        reason: String,
    }

    /// The site has the part again.
    PartReturned = "service-manager.part-returned" 1 {
        /// The lease.
        lease: LeaseId,
        /// The site's word on what came back.
        receipts: Vec<Receipt>,
    }

    /// The site did not take the part. The lease stays as it was.
    ReturnRefused = "service-manager.return-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// Why.
        refusal: Refusal,
    }

    /// The guest's software begins to leave the units that do not go on.
    ShrinkBegun = "service-manager.shrink-begun" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The lease goes on without the units that its extension leaves out.
    Shrunk = "service-manager.shrunk" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// Tickets arrived for a request that was given up; each becomes a lease that is given back.
    UnwantedGranted = "service-manager.unwanted-granted" 1 {
        /// The number of the request.
        number: u64,
        /// The tickets.
        tickets: Vec<(u16, Ticket)>,
    }

    /// The guest's software begins to leave the units.
    LeaveBegun = "service-manager.leave-begun" 1 {
        /// The lease.
        lease: LeaseId,
        /// What comes then.
        then: AfterLeave,
    }

    /// The guest's software has stopped using a unit, well or badly.
    Left = "service-manager.left" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Set if it went badly.
        error: Option<String>,
    }

    /// The lease is to be given back, and no unit has to be left first.
    CloseBegun = "service-manager.close-begun" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The site has the units again.
    SiteClosed = "service-manager.site-closed" 1 {
        /// The lease.
        lease: LeaseId,
        /// Set if the site closed it.
        refusal: Option<Refusal>,
        /// The site's word on what came back.
        receipts: Vec<Receipt>,
    }

    /// The broker took the receipts.
    Credited = "service-manager.credited" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The term has ended, less the clock margin; or no answer to a request that was given up can come any
    /// more.
    TermOver = "service-manager.term-over" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// No further message can refer to this lease, or to a request that never had one.
    LeaseForgotten = "service-manager.lease-forgotten" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The mapper is to be asked though nothing happened: at the start, or because it wanted to be.
    Woken = "service-manager.woken" 1 {}

    /// The configuration of a lease is to change in place.
    ModifyBegun = "service-manager.modify-begun" 1 {
        /// The lease.
        lease: LeaseId,
        /// All of the new configuration.
        configuration: Properties,
    }

    /// The units of a lease have its new configuration.
    Modified = "service-manager.modified" 1 {
        /// The lease.
        lease: LeaseId,
        /// The units, with the properties that result.
        units: Vec<LeasedUnit>,
    }

    /// The site did not change the configuration. The lease stays as it was.
    ModifyRefused = "service-manager.modify-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// Why.
        refusal: Refusal,
    }

    /// The guest's software has taken over the change of a unit, or could not.
    Notified = "service-manager.notified" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Set if it could not.
        error: Option<String>,
    }

    /// A ticket that was kept has to be redeemed by now: it is not used any more.
    TicketLapsed = "service-manager.ticket-lapsed" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The site is asked for what nobody claims of a part that had to be redeemed by now.
    ReclaimBegun = "service-manager.reclaim-begun" 1 {
        /// The part.
        part: LinkHash,
    }

    /// The site has said what became of the part. What came back is in the facts before this one.
    ReclaimEnded = "service-manager.reclaim-ended" 1 {
        /// The part.
        part: LinkHash,
        /// Whether it was redeemed in time.
        redeemed: bool,
    }

    /// A request was replaced by a later revision of it.
    Revised = "service-manager.revised" 1 {
        /// What is asked for now.
        request: Request,
        /// Why, in the user's words.
        reason: String,
    }

    /// The site says what a recall takes of a lease, and when.
    RecallTold = "service-manager.recall-told" 1 {
        /// The lease.
        lease: LeaseId,
        /// What it leaves, and when.
        told: Notice,
    }

    /// The site says that a unit of a lease has failed.
    UnitFailed = "service-manager.unit-failed" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// How it failed.
        why: String,
    }

    /// Units of a lease that failed go back, and others are to be asked for.
    ReplacementWanted = "service-manager.replacement-wanted" 1 {
        /// The lease.
        lease: LeaseId,
        /// The units.
        units: Vec<UnitId>,
        /// Whether the lease cannot do without others.
        needed: bool,
    }

    /// The user names the units that go first by a recall.
    VictimsNamed = "service-manager.victims-named" 1 {
        /// The lease.
        lease: LeaseId,
        /// The units.
        victims: Vec<UnitId>,
    }

    /// The guest's software begins to leave units that are recalled.
    RecallBegun = "service-manager.recall-begun" 1 {
        /// The lease.
        lease: LeaseId,
        /// The link that is recalled.
        link: LinkHash,
        /// The units.
        units: Vec<UnitId>,
    }

    /// A lease goes on without the units that are recalled.
    UnitsRecalled = "service-manager.units-recalled" 1 {
        /// The lease.
        lease: LeaseId,
        /// The link that is recalled.
        link: LinkHash,
        /// The units.
        units: Vec<UnitId>,
        /// How many stay, or how much of a share.
        stay: u32,
    }

    /// A recall is changed or withdrawn: the guest's software joins the units again that it left for it.
    RecallLifted = "service-manager.recall-lifted" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The site of a part of a kept ticket is asked to recall units of it.
    RecallAsked = "service-manager.recall-asked" 1 {
        /// The link that is recalled.
        link: LinkHash,
        /// How many units stay, from when on.
        level: Level,
    }

    /// The site has recorded a recall, or enforced it.
    RecallAnswered = "service-manager.recall-answered" 1 {
        /// The link that is recalled.
        link: LinkHash,
        /// When it takes the last of the units.
        at: Time,
        /// Whether it has taken all that it takes.
        enforced: bool,
    }

    /// The site does not take a recall.
    RecallRefused = "service-manager.recall-refused" 1 {
        /// The link.
        link: LinkHash,
        /// Why.
        refusal: Refusal,
    }

    /// The guest's driver was warned that a unit is recalled, or could not be.
    Warned = "service-manager.warned" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Counts the warnings of the lease.
        number: u32,
        /// Set if it could not.
        error: Option<String>,
    }

    /// What a lease waited for is in use: its ticket is redeemed, or its units are joined.
    Unblocked = "service-manager.unblocked" 1 {
        /// The lease.
        lease: LeaseId,
        /// What it does now.
        gate: Gate,
        /// Its configuration from now on, which may name units of the others.
        configuration: Properties,
    }

    /// All that a lease waits for is in use, and its mapper is asked before it goes on.
    GateReached = "service-manager.gate-reached" 1 {
        /// The lease.
        lease: LeaseId,
        /// What it does next.
        gate: Gate,
        /// Without an answer it goes on then.
        until: Time,
    }

    /// The mapper has answered of a lease that is to go on.
    GateAnswered = "service-manager.gate-answered" 1 {
        /// The lease.
        lease: LeaseId,
        /// What it does next.
        gate: Gate,
        /// The answer.
        answer: GateAnswer,
        /// Why, in the mapper's words.
        reason: String,
    }

    /// The guest's driver refused to join a unit, and has not touched it: it goes back.
    JoinRefused = "service-manager.join-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Why.
        error: String,
    }

    /// The guest's driver refused to leave a unit, and has not touched it: what was to go back for the guest's own sake
    /// stays, and what was left of it by then is joined again.
    LeaveRefused = "service-manager.leave-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// Why.
        error: String,
    }

    /// The guest's driver may refuse to leave no unit of a lease from now on.
    LeaveForced = "service-manager.leave-forced" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The guest's software is to have left the units by an earlier instant.
    LeaveHastened = "service-manager.leave-hastened" 1 {
        /// The lease.
        lease: LeaseId,
        /// The instant.
        by: Time,
    }

    /// The guest's driver said how long a unit was in use.
    UsageReported = "service-manager.usage-reported" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
        /// How long.
        used: Span,
    }

    /// What is not handed on of a kept ticket goes back to its site, now and whenever a part comes back.
    RestWanted = "service-manager.rest-wanted" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The site is asked to take units of a kept ticket that was split.
    RestBegun = "service-manager.rest-begun" 1 {
        /// The lease.
        lease: LeaseId,
        /// Counts the returns of the ticket.
        number: u32,
        /// How many units.
        units: NonZeroU32,
        /// From when on.
        from: Time,
    }

    /// The site has these units of a kept ticket again.
    RestReturned = "service-manager.rest-returned" 1 {
        /// The lease.
        lease: LeaseId,
        /// The site's word on what came back.
        receipts: Vec<Receipt>,
    }

    /// The site does not take these units of a kept ticket back.
    RestRefused = "service-manager.rest-refused" 1 {
        /// The lease.
        lease: LeaseId,
        /// Why.
        refusal: Refusal,
    }

    /// The issuer of a kept ticket knows what came back of it.
    RestCredited = "service-manager.rest-credited" 1 {
        /// The lease.
        lease: LeaseId,
    }

    /// The mapper is asked for a plan of packages on nodes.
    PlanRequested = "service-manager.plan-requested" 1 {
        /// The number of the plan.
        plan: u64,
        /// What is asked for.
        request: PlanRequest,
    }

    /// A plan lacks nodes: they are asked for next, and it holds those that it has meanwhile.
    PlanLeasing = "service-manager.plan-leasing" 1 {
        /// The number of the plan.
        plan: u64,
        /// The number of the request, which is that of no other.
        request: u64,
        /// What it lacks.
        lacking: Lacking,
        /// The nodes that it has, by their names.
        nodes: BTreeMap<String, PlanNode>,
    }

    /// What a plan lacked is in use: the mapper is asked again.
    PlanLeased = "service-manager.plan-leased" 1 {
        /// The number of the plan.
        plan: u64,
        /// The nodes that came, by their names. It holds them.
        nodes: BTreeMap<String, PlanNode>,
    }

    /// The plan is computed, and holds its nodes from now on.
    PlanProposed = "service-manager.plan-proposed" 1 {
        /// The plan.
        plan: u64,
        /// What the mapper made of it.
        placed: Placed,
        /// What it is worth by its objective.
        worth: String,
        /// Its nodes by their names.
        nodes: BTreeMap<String, PlanNode>,
    }

    /// The packages of a plan are installed from now on.
    PlanAccepted = "service-manager.plan-accepted" 1 {
        /// The plan.
        plan: u64,
    }

    /// A package is installed on a node, or could not be.
    PackageReported = "service-manager.package-reported" 1 {
        /// The plan.
        plan: u64,
        /// The number of the installation.
        number: u32,
        /// Set if it could not.
        error: Option<String>,
    }

    /// A package is removed from a node, or could not be.
    PackageRemoved = "service-manager.package-removed" 1 {
        /// The plan.
        plan: u64,
        /// The number of the installation.
        number: u32,
        /// Set if it could not.
        error: Option<String>,
    }

    /// A plan holds no nodes any more.
    PlanEnded = "service-manager.plan-ended" 1 {
        /// The plan.
        plan: u64,
        /// How it ended.
        outcome: PlanOutcome,
        /// Why.
        why: Vec<String>,
    }

    /// A plan is not remembered any more.
    PlanForgotten = "service-manager.plan-forgotten" 1 {
        /// The plan.
        plan: u64,
    }

    /// A service is there from now on, or is to reach something else.
    ServiceDefined = "service-manager.service-defined" 1 {
        /// The service.
        service: SliceName,
        /// What it is.
        definition: Definition,
    }

    /// A service is not remembered any more. Its leases stay.
    ServiceRemoved = "service-manager.service-removed" 1 {
        /// The service.
        service: SliceName,
    }

    /// A service was measured.
    ServiceReported = "service-manager.service-reported" 1 {
        /// The service.
        service: SliceName,
        /// All KPIs.
        kpis: Kpis,
        /// How it was found.
        seen: Found,
        /// Which of its units were at work, as far as that is known.
        busy: BTreeSet<SiteUnit>,
    }

    /// What takes part in a service without a lease has changed.
    MembersTold = "service-manager.members-told" 1 {
        /// The service.
        service: SliceName,
        /// All of them, with whether they are up.
        members: Members,
    }

    /// Several claim a unit, by what it is called, or they do not any more.
    MemberAmbiguous = "service-manager.member-ambiguous" 1 {
        /// What it is called.
        member: MemberId,
        /// Who claims it; none if it is one or nobody.
        claims: Vec<Claim>,
    }

    /// It is known whose a unit is that several claim.
    AmbiguitySettled = "service-manager.ambiguity-settled" 1 {
        /// What it is called.
        member: MemberId,
        /// Whose it is.
        keep: Claimant,
        /// The rule that says so; none if it is a user.
        by: Option<Rule>,
    }

    /// A host is claimed by other guests, as brokers say, or by several here while one of its units is being joined.
    MemberContested = "service-manager.member-contested" 1 {
        /// What it is called.
        member: MemberId,
        /// Who claims it here.
        claims: Vec<Claim>,
        /// The claims of others.
        others: Vec<OtherClaim>,
        /// Its units that are being joined: these calls go on.
        joining: Vec<(LeaseId, UnitId)>,
    }

    /// A host that another guest claims is that one's.
    MemberCeded = "service-manager.member-ceded" 1 {
        /// What it is called.
        member: MemberId,
        /// The rule that says so; none if it is a user.
        by: Option<Rule>,
    }

    /// What a mapper decides for a service that it only advises on has changed.
    ServiceAdvised = "service-manager.service-advised" 1 {
        /// The service.
        service: SliceName,
        /// What would be done.
        advice: Advice,
    }

    /// A unit is not asked for again for a service, or may be.
    UnitBlacklisted = "service-manager.unit-blacklisted" 1 {
        /// The service.
        service: SliceName,
        /// The unit.
        unit: SiteUnit,
        /// Until when it is not; none if it may be.
        until: Option<Time>,
    }

    /// What was measured of a service is too old to count.
    ServiceStale = "service-manager.service-stale" 1 {
        /// The service.
        service: SliceName,
    }

    /// An SLO was judged, and comes to something else than before.
    SloAssessed = "service-manager.slo-assessed" 1 {
        /// The service.
        service: SliceName,
        /// The SLO.
        slo: Name,
        /// Whether it is met.
        met: Met,
        /// How many units it wants; none if that cannot be told.
        want: Option<u32>,
    }

    /// A broker is to know what a service wants, and what it has of that broker.
    NeedStated = "service-manager.need-stated" 1 {
        /// The broker.
        broker: ActorId,
        /// What it is told.
        need: Need,
    }

    /// A broker has noted what it was told of a service.
    NeedAnswered = "service-manager.need-answered" 1 {
        /// The broker.
        broker: ActorId,
        /// The service.
        service: SliceName,
        /// The revision.
        revision: u64,
    }

    /// A broker is to know which hosts a service uses.
    HostsStated = "service-manager.hosts-stated" 1 {
        /// The broker.
        broker: ActorId,
        /// What it is told.
        hosts: Hosts,
    }

    /// A broker has noted which hosts a service uses, and has said who else claims them.
    HostsAnswered = "service-manager.hosts-answered" 1 {
        /// The broker.
        broker: ActorId,
        /// The service.
        service: SliceName,
        /// The revision.
        revision: u64,
        /// The claims of others.
        contests: Vec<Contest>,
    }

    /// How much would be lost of the units of a service that are at work, as far as that is known. It follows what was
    /// measured.
    WorkTold = "service-manager.work-told" 1 {
        /// The service.
        service: SliceName,
        /// How much of each, in a measure of its adapter's.
        work: Vec<(SiteUnit, u64)>,
    }

    /// The site of a lease was not heard for so long that it may end it: the guest gives it back.
    SiteUnheard = "service-manager.site-unheard" 1 {
        /// The lease.
        lease: LeaseId,
        /// When the last heartbeat was sent that the site has answered, or the guest was started.
        since: Time,
    }

    /// The guest's software is to leave a unit that it could not use, and to join it again.
    UnitReset = "service-manager.unit-reset" 1 {
        /// The lease.
        lease: LeaseId,
        /// The unit.
        unit: UnitId,
    }
}
