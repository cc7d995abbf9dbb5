//! What a script can say: every command with what it does.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::actor::effect::DriverResult;
use tenure_core::actor::order::Order;
use tenure_core::broker::Command as BrokerCommand;
use tenure_core::broker::quota::Quota;
use tenure_core::runtime::{Fact, Input};
use tenure_core::service_manager::{Command as GuestCommand, Part, Victims};

use tenure_core::actor::snapshot;
use tenure_core::driver::{Call, Epoch, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Constraints;
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::{Span, Term};
use tenure_core::service_manager::group::{ASSEMBLE, Handling};
use tenure_core::service_manager::mapper::Ask;
use tenure_core::service_manager::sequence::{After, Gate, On};
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::Provisos;
use tenure_core::wire::request::{Item, Joins, Relation};
use tenure_laws::Bounds;

use super::availability;
use super::delegations;
use super::deployment;
use super::forge;
use super::gates;
use super::keys;
use super::network::{Fate, Which};
use super::operators;
use super::participant::{CrashPoint, DriverBehavior, done, refused};
use super::peers;
use super::plans;
use super::recall;
use super::script::{self, Args, Bad};
use super::services;
use super::sharing;
use super::show;
use super::world::World;

/// A command: how it is written, and what it does.
pub struct Known {
    pub usage: &'static str,
    act: fn(&mut World, &mut Args) -> Result<(), Bad>,
}

/// Every command but `deployment` and `quietly`.
pub const COMMANDS: &[Known] = &[
    Known {
        usage: "ask GUEST [optional] UNITS TYPE [after SPAN] [where 'EXPR'] [joins ITEM ITEM [hops N] [latency SPAN]] [of BROKER].. from=TIME for=SPAN[..SPAN] [latest=TIME] [plan=yes] [hold=SPAN] [tries=N] [answer-by=TIME] [broker=NAME] [with=KEY:TEXT] [bundle=yes] [assemble=SPAN] [keep=yes] [redeem-after=WHAT,..] [join-after=WHAT,..] [redeem-by=TIME] [not-at=SITE,..] [not-on=SITE/UNIT,..] [notice=SPAN] [min-tenure=SPAN]",
        act: ask,
    },
    Known { usage: "revise GUEST/REQUEST UNITS TYPE .. from=TIME for=SPAN", act: revise },
    Known { usage: "once KEY COMMAND", act: once },
    Known {
        usage: "extend GUEST/LEASE for=SPAN [units=N] [victims=UNIT,..|oldest|youngest|least-used]",
        act: extend,
    },
    Known { usage: "recall ISSUER TICKET UNITS|withdraw [from=TIME]", act: recall::recall },
    Known { usage: "victims GUEST/LEASE UNIT,..", act: name_victims },
    Known { usage: "unit reset GUEST/LEASE UNIT", act: reset_unit },
    Known {
        usage: "flex GUEST/LEASE -UNITS [victims=UNIT,..|oldest|youngest|least-used]",
        act: flex,
    },
    Known { usage: "shorten GUEST/LEASE until=TIME", act: shorten },
    Known { usage: "modify GUEST/LEASE with=KEY:TEXT", act: modify },
    Known { usage: "accept GUEST/REQUEST OFFER", act: accept },
    Known { usage: "withdraw request GUEST/REQUEST", act: withdraw_request },
    Known { usage: "inquire GUEST [type=TYPE] from=TIME for=SPAN", act: availability::inquire },
    Known { usage: "close GUEST/LEASE [by=TIME]", act: close },
    Known { usage: "force GUEST/LEASE", act: force },
    Known { usage: "grow GUEST/LEASE UNITS", act: grow },
    Known { usage: "redeem GUEST/LEASE", act: redeem },
    Known {
        usage: "split GUEST/LEASE UNITS GUEST.. for=SPAN [from=TIME] [where 'EXPR'] [times=N] [redeem-by=TIME] [notice=SPAN] [min-tenure=SPAN]",
        act: split,
    },
    Known { usage: "take GUEST TICKET [keep=yes]", act: take },
    Known { usage: "stock SITE UNITS TYPE", act: operators::stock },
    Known { usage: "withdraw SITE UNITS TYPE", act: operators::withdraw },
    Known {
        usage: "delegate SITE|BROKER BROKER UNITS TYPE for=SPAN [from=DELEGATION] [grow=NUMBER]",
        act: delegations::delegate,
    },
    Known { usage: "give back BROKER DELEGATION UNITS [from=TIME]", act: delegations::give_back },
    Known {
        usage: "share BROKER BROKER [units=N] [reserve=N] [notice=SPAN] [term=SPAN]",
        act: sharing::share,
    },
    Known { usage: "forward BROKER BROKER [types=TYPE,..] [longest=SPAN]", act: sharing::forward },
    Known { usage: "sell nothing BROKER", act: sharing::drain },
    Known { usage: "sell again BROKER", act: sharing::resume },
    Known { usage: "add SITE NAME TYPE [rack=TEXT]", act: operators::add },
    Known { usage: "drain SITE UNIT [by=TIME]", act: operators::drain },
    Known { usage: "resume SITE UNIT", act: operators::resume },
    Known { usage: "fail SITE UNIT [why=TEXT] [epoch=N]", act: operators::fail },
    Known { usage: "quarantine SITE UNIT [why=TEXT]", act: operators::quarantine },
    Known { usage: "remove SITE UNIT", act: operators::remove },
    Known { usage: "reset SITE UNIT", act: operators::reset },
    Known {
        usage: "quota BROKER GUEST|BROKER|each [units=N] [unit-hours=N] [period=SPAN] [open=N] [holds=N] [rate=N]",
        act: quota,
    },
    Known {
        usage: "plan propose GUEST PACKAGE[*N].. [memory=N] [hold=SPAN] [uses=PART+PART,..] [same-host=PART+PART,..] [slice=NAME] [on-failure=keep|roll-back|replan] [accept=yes] [lease=SPAN count=N] [scope=SLICE,..]",
        act: plans::propose,
    },
    Known { usage: "plan accept GUEST/PLAN", act: plans::accept },
    Known { usage: "plan release GUEST/PLAN", act: plans::release },
    Known { usage: "plan report GUEST/PLAN PACKAGE NODE works|fails", act: plans::report },
    Known {
        usage: "service add GUEST SERVICE [mode=managed|unmanaged|advise] [most=N] [least=N] [term=SPAN] [idle-after=SPAN] [stale-after=SPAN] [notice=SPAN] [min-tenure=SPAN] [deadband=PERCENT] [blacklist-for=SPAN]",
        act: services::add,
    },
    Known { usage: "service remove GUEST SERVICE", act: services::remove },
    Known {
        usage: "service report GUEST SERVICE [seen=running|stopped|failed|starting|shutdown] [busy=SITE/UNIT[:WORK],..] [members=NAME[:down],..] [KPI=VALUE]..",
        act: services::report,
    },
    Known { usage: "service resolve GUEST HOST SERVICE", act: services::resolve },
    Known { usage: "service cede GUEST HOST", act: services::cede },
    Known {
        usage: "service blacklist GUEST SERVICE SITE/UNIT [for=SPAN]",
        act: services::blacklist,
    },
    Known {
        usage: "invite NAME site|broker|guest [holds=SPAN] [called=NAME] [as=share|forward [limit=N]]",
        act: peers::invite,
    },
    Known {
        usage: "join NAME INVITER NUMBER [called=NAME] [as=share|forward [limit=N]]",
        act: peers::join,
    },
    Known { usage: "allow NAME PEER all|nothing", act: peers::allow },
    Known { usage: "forget NAME PEER", act: peers::forget },
    Known { usage: "keys rotate NAME", act: keys::rotate },
    Known { usage: "keys revoke NAME NUMBER", act: keys::revoke },
    Known { usage: "stolen NAME NUMBER COMMAND", act: keys::stolen },
    Known { usage: "advance SPAN | to TIME", act: advance },
    Known {
        usage: "drop FROM->TO KIND [times=N]",
        act: |world, args| rule(world, args, Fate::Lost),
    },
    Known {
        usage: "hold FROM->TO KIND [times=N]",
        act: |world, args| rule(world, args, Fate::Held),
    },
    Known { usage: "deliver [FROM->TO [KIND]]", act: deliver },
    Known { usage: "cut NAME NAME [one-way]", act: cut },
    Known { usage: "heal", act: heal },
    Known { usage: "repeat", act: repeat },
    Known { usage: "replay FROM->TO KIND [oldest]", act: replay },
    Known { usage: "crash NAME [before FACT | after FACT]", act: crash },
    Known { usage: "fragile NAME", act: fragile },
    Known { usage: "stop NAME", act: stop },
    Known { usage: "start NAME", act: start },
    Known { usage: "clock NAME SPAN", act: clock },
    Known { usage: "set NAME KEY:TEXT", act: set },
    Known {
        usage: "driver NAME STEP works|fails|refuses|hangs|takes SPAN [unit=UNIT]",
        act: driver,
    },
    Known { usage: "answer NAME STEP UNIT works|fails|refuses [epoch=N]", act: answer },
    Known { usage: "mapper NAME asleep|awake", act: mapper },
    Known {
        usage: "at gate GUEST/LEASE goes-on|waits|gives-up [with=KEY:TEXT] [on=REQUEST,..]",
        act: gates::answer,
    },
    Known {
        usage: "forge ask GUEST UNITS TYPE from=TIME for=SPAN [latest=TIME] [as=GUEST] [on=TICKET]",
        act: forge::ask,
    },
    Known {
        usage: "forge grant BROKER GUEST/REQUEST UNITS from=TICKET [tokens=none]",
        act: forge::grant,
    },
    Known {
        usage: "forge delegate BROKER BROKER UNITS from=DELEGATION for=SPAN [number=N]",
        act: delegations::forge,
    },
    Known { usage: "forge alter TICKET [units=N] [end=TIME] [holder=NAME]", act: forge::alter },
    Known { usage: "forge split GUEST TICKET UNITS GUEST for=SPAN [from=TIME]", act: forge::split },
    Known { usage: "forge redeem GUEST TICKET [at=SITE]", act: forge::redeem },
    Known { usage: "forge close GUEST TICKET [at=SITE]", act: forge::close },
    Known { usage: "forge recall NAME TICKET UNITS", act: forge::recall },
    Known { usage: "forge give back BROKER DELEGATION UNITS", act: forge::give_back },
    Known { usage: "forge credit GUEST TICKET", act: forge::credit },
    Known {
        usage: "evidence TICKET.. [without=TICKET] [at=TIME] [excused=yes]",
        act: forge::evidence,
    },
    Known { usage: "show leases", act: show::leases },
    Known { usage: "show shortage", act: show::shortage },
    Known { usage: "show stacks", act: show::stacks },
    Known { usage: "show fidelity", act: show::fidelity },
    Known { usage: "show costs", act: show::costs },
    Known { usage: "show units", act: show::units },
    Known { usage: "show ledgers", act: show::ledgers },
    Known { usage: "finish", act: finish },
];

/// The deployment of a script, once it has one.
#[derive(Default)]
pub struct ScriptContext(Option<World>);

impl ScriptContext {
    /// The laws that its actors were held to.
    pub fn laws(&self) -> Vec<&'static str> {
        self.0.iter().flat_map(|world| world.audit.asked()).collect()
    }

    /// The hashes of the states that its actors are in.
    pub fn states(&self) -> Vec<Hash> {
        let participants = self.0.iter().flat_map(|world| &world.participants);
        participants.map(|participant| snapshot::hash(&participant.stored())).collect()
    }

    /// Carries out a command and answers its trace.
    pub fn perform(&mut self, mut args: Args) -> Result<Vec<String>, Bad> {
        let quietly = args.has("quietly");
        if args.has("deployment") {
            self.0 = Some(deployment::deploy(args)?);
        } else {
            let world = self.0.as_mut().ok_or("a script begins with `deployment`")?;
            act(world, &mut args)?;
        }
        let mut trace = self.0.as_mut().map(World::take_trace).unwrap_or_default();
        if quietly {
            // The end is always printed.
            let rest = trace.pop_if(|line| line.contains(show::REST));
            trace =
                [Some(format!("({} lines)", trace.len())), rest].into_iter().flatten().collect();
        }
        Ok(trace)
    }
}

/// The first words of a command, as it is known by.
fn verb(usage: &str) -> Vec<&str> {
    usage.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_lowercase())).collect()
}

fn act(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    perform(world, args)?;
    world.run()
}

/// Does what a command says, but not yet what follows.
pub fn perform(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let fits = |known: &&Known, args: &Args| args.begin_with(&verb(known.usage));
    let Some(known) = COMMANDS.iter().find(|known| fits(known, args)) else {
        let known: Vec<_> = COMMANDS.iter().map(|known| format!("  {}", known.usage)).collect();
        let word = args.maybe().unwrap_or_default();
        return Err(format!(
            "there is no command `{word}`; known:\n  deployment [at=TIME] [margin=SPAN] [retry=SPAN] [clocks=apart] [clock-check=SPAN]\n  quietly COMMAND\n{}",
            known.join("\n")
        ));
    };
    for _ in verb(known.usage) {
        args.maybe();
    }
    let with_usage = |bad: Bad| format!("{bad}\n  write `{}`", known.usage);
    (known.act)(world, args).map_err(with_usage)?;
    args.done().map_err(with_usage)
}

fn ask(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = guest(world, args)?;
    let tries = args.number_option("tries")?.unwrap_or(3);
    let (ask, brokers) = wanted_of(world, args)?;
    let command = match (brokers.into_iter().collect::<Option<Vec<_>>>(), ask.reply) {
        (Some(brokers), Reply::Hold(hold)) => {
            let ask = Box::new(Ask { reply: Reply::Grant, ..ask });
            GuestCommand::AskSeveral { ask, brokers, hold, tries }
        }
        _ => GuestCommand::Ask(ask),
    };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

/// A request is replaced while it is open.
fn revise(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let (number, ask) = (lease.number, wanted(world, args)?);
    world.hand(who, Input::Command(GuestCommand::Revise { number, ask }.into()));
    Ok(())
}

/// A command under a key: carried out once.
fn once(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let key = args.next("the key")?;
    let digest = Hash::of("script", &[args.text().as_bytes()]);
    let (part, who) = (String::new(), "the script".to_owned());
    world.order = Some(Order { key, part, who, digest });
    let done = perform(world, args);
    world.order = None;
    done
}

/// What is asked for.
fn wanted(world: &World, args: &mut Args) -> Result<Ask, Bad> {
    Ok(wanted_of(world, args)?.0)
}

/// What is asked for, and of each item the broker that is named.
fn wanted_of(world: &World, args: &mut Args) -> Result<(Ask, Vec<Option<ActorId>>), Bad> {
    let accepts = recall::accepts(args)?;
    let (items, brokers) = items(world, args)?;
    let items = items.into_iter().map(|item| Item { accepts, ..item }).collect();
    let earliest = args.time_option("from")?.unwrap_or(world.now);
    let lasts = args.option("for").ok_or("for= is missing")?;
    let (shortest, longest) = lasts.split_once("..").unwrap_or((&lasts, &lasts));
    let (min_duration, duration) = (script::span(shortest)?, script::span(longest)?);
    let reply = match (args.option("plan"), args.span_option("hold")?) {
        (Some(_), _) => Reply::Plan,
        (None, Some(span)) => Reply::Hold(span),
        (None, None) => Reply::Grant,
    };
    let latest = args.time_option("latest")?.unwrap_or(earliest);
    let answer_by = args.time_option("answer-by")?.unwrap_or(latest.plus(duration));
    let broker = args.option("broker").map(|broker| world.index(&broker)).transpose()?;
    let configuration = match args.option("with").map(|text| pair(&text)).transpose()? {
        Some(pair) => {
            Properties::try_from(BTreeMap::from([pair])).map_err(|bad| bad.to_string())?
        }
        None => Properties::default(),
    };
    let handling = Handling {
        bundle: args.option("bundle").is_some(),
        assemble: args.span_option("assemble")?.unwrap_or(ASSEMBLE),
        keep_tickets: args.option("keep").is_some(),
        after: sequence(args)?,
    };
    let mut provisos = Provisos { redeem_by: args.time_option("redeem-by")?, ..Provisos::NONE };
    for site in args.option("not-at").iter().flat_map(|sites| sites.split(',')) {
        provisos.not_at.insert(world.id(world.index(site)?));
    }
    for unit in args.option("not-on").iter().flat_map(|units| units.split(',')) {
        provisos.not_on.insert(unit_of(world, unit)?);
    }
    let ask = Ask {
        broker: broker.map(|broker| world.id(broker)),
        slice: Name::literal("main"),
        items,
        earliest,
        latest,
        duration,
        min_duration,
        provisos,
        again: None,
        reply,
        answer_by,
        properties: Properties::default(),
        configuration,
        reason: "the script".to_owned(),
        handling,
    };
    Ok((ask, brokers))
}

/// What leases wait for: `redeem-after=1` or `join-after=1:item0,2`, items before the colon.
fn sequence(args: &mut Args) -> Result<Vec<After>, Bad> {
    let mut after = Vec::new();
    for (option, gate) in [("redeem-after", Gate::Redeem), ("join-after", Gate::Join)] {
        for text in args.option(option).iter().flat_map(|all| all.split(',')) {
            let (item, on) = text.split_once(':').map_or((None, text), |(i, on)| (Some(i), on));
            let bad = || format!("`{text}` is nothing to wait for: write `1`, or `1:item0`");
            let item = item.map(str::parse).transpose().map_err(|_| bad())?;
            let on = match on.strip_prefix("item") {
                Some(item) => On::Item(item.parse().map_err(|_| bad())?),
                None if on == "mapper" => On::Mapper,
                None => On::Request(on.parse().map_err(|_| bad())?),
            };
            after.push(After { item, on, gate });
        }
    }
    Ok(after)
}

/// A unit by its site and its number there: `hill/u2`.
fn unit_of(world: &World, text: &str) -> Result<(ActorId, UnitId), Bad> {
    let (site, unit) = text.split_once('/').ok_or_else(|| format!("`{text}` is no unit"))?;
    let number = unit.strip_prefix('u').and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| format!("`{unit}` is no number of a unit"))?;
    Ok((world.id(world.index(site)?), UnitId(number)))
}

/// The items of a request: `2 node ( 1 gpu 1 disk ) | 4 node optional 1 gpu after 1h`, `[ 1 node 1 node ]` apart,
/// `100 bandwidth joins 0 1 hops 2 latency 5ms` as a link between the first two, `2 node of north`
/// of a broker by name.
fn items(world: &World, args: &mut Args) -> Result<(Vec<Item>, Vec<Option<ActorId>>), Bad> {
    let (mut items, mut choice, mut bundles) = (Vec::new(), 0, 0);
    let mut brokers = Vec::new();
    let (mut together, mut apart) = (None, None);
    while let Some(word) = args.maybe() {
        match word.as_str() {
            "|" => choice += 1,
            "(" => {
                together = Some(bundles);
                bundles += 1;
            }
            ")" => together = None,
            "[" => {
                apart = Some(bundles);
                bundles += 1;
            }
            "]" => apart = None,
            _ => {
                let optional = word == "optional";
                let units = if optional { args.next("the number of units")? } else { word };
                let (min_units, units) = range(&units)?;
                let resource = name(&args.next("the type of the units")?)?;
                let after = args.has("after").then(|| args.next("how much later"));
                let offset = after.transpose()?.map(|text| script::span(&text)).transpose()?;
                let condition = if args.has("where") { Some(args.condition()?) } else { None };
                let joins = if args.has("joins") { Some(joins(args)?) } else { None };
                let broker = args.has("of").then(|| args.next("the broker")).transpose()?;
                let broker = broker.map(|name| world.index(&name)).transpose()?;
                brokers.push(broker.map(|broker| world.id(broker)));
                let apart = apart.map_or(Relation::Alone, Relation::Apart);
                items.push(Item {
                    min_units,
                    requirements: condition.into_iter().collect(),
                    choice,
                    optional,
                    offset: offset.unwrap_or(Span::ZERO),
                    together,
                    relation: joins.map_or(apart, Relation::Joins),
                    ..Item::new(resource, units)
                });
            }
        }
    }
    Ok((items, brokers))
}

/// The rest of a link: its ends, and how long its path may be.
fn joins(args: &mut Args) -> Result<Joins, Bad> {
    let ends = [args.number("the item at one end")?, args.number("the item at the other end")?];
    let hops = if args.has("hops") { Some(args.number("the most edges")?) } else { None };
    let latency = args.has("latency").then(|| args.next("the most latency"));
    let latency = latency.transpose()?.map(|text| script::span(&text)).transpose()?;
    Ok(Joins { ends, latency, hops })
}

fn accept(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let (number, offer) = (lease.number, args.number("the number of the offer")?);
    world.hand(who, Input::Command(GuestCommand::Accept { number, offer }.into()));
    Ok(())
}

fn withdraw_request(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    world.hand(who, Input::Command(GuestCommand::Withdraw { number: lease.number }.into()));
    Ok(())
}

fn extend(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let duration = args.span_option("for")?.ok_or("for= is missing")?;
    let (units, victims) = (args.number_option("units")?, victims(args)?);
    let command = GuestCommand::Extend { lease, duration, units, victims };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

/// Which units of a lease go.
fn victims(args: &mut Args) -> Result<Victims, Bad> {
    Ok(match args.option("victims").as_deref() {
        None | Some("youngest") => Victims::Youngest,
        Some("oldest") => Victims::Oldest,
        Some("least-used") => Victims::LeastUsed,
        Some(units) => {
            let unit = |unit: &str| unit.trim_start_matches('u').parse().map(UnitId);
            let units: Result<_, _> = units.split(',').map(unit).collect();
            Victims::Named(units.map_err(|_| "`victims=` names units: u1,u3")?)
        }
    })
}

/// The units that go first by a recall.
fn name_victims(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let units = recall::units_named(&args.next("the units")?)?;
    world.hand(who, Input::Command(GuestCommand::Victims { lease, units }.into()));
    Ok(())
}

/// A unit that the guest's software could not use is left, and joined again.
fn reset_unit(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let unit = args.next("the unit")?;
    let unit = unit.trim_start_matches('u').parse().map_err(|_| "write a unit: u1")?;
    let command = GuestCommand::ResetUnit { lease, unit: UnitId(unit) };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

/// Some units of a lease go back.
fn flex(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let units = args.next("the number of units")?;
    let shrink = units.strip_prefix('-').and_then(|units| units.parse().ok());
    let shrink = shrink.ok_or("write how many units go back: -2")?;
    let command = GuestCommand::Flex { lease, shrink, victims: victims(args)? };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

/// The rest of a lease's term goes back.
fn shorten(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let until = args.time_option("until")?.ok_or("until= is missing")?;
    world.hand(who, Input::Command(GuestCommand::Shorten { lease, until }.into()));
    Ok(())
}

/// The configuration of a lease changes in place.
fn modify(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let pair = pair(&args.option("with").ok_or("with= is missing")?)?;
    let changes = Properties::try_from(BTreeMap::from([pair])).map_err(|bad| bad.to_string())?;
    world.hand(who, Input::Command(GuestCommand::Modify { lease, changes }.into()));
    Ok(())
}

fn close(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let command = match args.time_option("by")? {
        Some(by) => GuestCommand::Hasten { lease, by },
        None => GuestCommand::Close { lease },
    };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

/// The guest takes no refusal to leave a unit any more.
fn force(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    world.hand(who, Input::Command(GuestCommand::ForceLeave { lease }.into()));
    Ok(())
}

fn grow(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let (units, requirements) = (args.number("the number of units")?, Constraints::NONE);
    world.hand(who, Input::Command(GuestCommand::Grow { lease, units, requirements }.into()));
    Ok(())
}

fn redeem(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    world.hand(who, Input::Command(GuestCommand::Redeem { lease }.into()));
    Ok(())
}

/// A holder hands parts of its ticket on: to each guest named the units before it.
fn split(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (who, lease) = lease(world, args)?;
    let start = args.time_option("from")?.unwrap_or(world.now);
    let duration = args.span_option("for")?.ok_or("for= is missing")?;
    let times = args.number_option("times")?.unwrap_or(1);
    let redeem_by = args.time_option("redeem-by")?;
    let accepts = recall::accepts(args)?;
    let term = Term::lasting(start, duration).map_err(|bad| bad.to_string())?;
    let mut parts = Vec::new();
    let mut constraints = Constraints::NONE;
    while let Some(units) = args.maybe() {
        if units == "where" {
            constraints.extend(Some(args.condition()?));
            continue;
        }
        let units = units.parse().map_err(|_| format!("`{units}` is no number of units"))?;
        let holder = world.id(guest(world, args)?);
        let constraints = Constraints::NONE;
        let part = Part { holder, units, term, constraints, redeem_by, accepts };
        parts.extend(std::iter::repeat_n(part, times));
    }
    parts.iter_mut().for_each(|part| part.constraints = constraints.clone());
    world.hand(who, Input::Command(GuestCommand::Split { lease, parts }.into()));
    Ok(())
}

/// A guest takes a ticket that reached it by other ways than the network.
fn take(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = guest(world, args)?;
    let ticket = world.names.find(&args.next("the ticket")?)?.clone();
    let (slice, keep) = (Name::literal("main"), args.option("keep").is_some());
    let configuration = Properties::default();
    let command = GuestCommand::Take { ticket, slice, configuration, keep };
    world.hand(who, Input::Command(command.into()));
    Ok(())
}

fn quota(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = of_role(world, &args.next("the broker")?, Role::Broker)?;
    let guest = args.next("the guest")?;
    let whose = if guest == "each" { None } else { Some(world.index(&guest)?) };
    let quota = Quota {
        units: args.number_option("units")?,
        unit_hours: args.number_option("unit-hours")?,
        period: args.span_option("period")?,
        open_requests: args.number_option("open")?,
        holds: args.number_option("holds")?,
        requests_per_second: args.number_option("rate")?,
    };
    let whose = whose.map(|guest| world.participants[guest].id);
    let quota = (quota != Quota::default()).then_some(quota);
    world.hand(who, Input::Command(BrokerCommand::SetQuota { whose, quota }.into()));
    Ok(())
}

fn advance(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let until = if args.has("to") {
        script::time(&args.next("the time")?)?
    } else {
        world.now.plus(script::span(&args.next("for how long")?)?)
    };
    world.advance_to(until)
}

fn rule(world: &mut World, args: &mut Args, fate: Fate) -> Result<(), Bad> {
    let which = which(world, args)?.ok_or("FROM->TO is missing")?;
    world.network.rule(which, fate, args.number_option("times")?);
    Ok(())
}

fn deliver(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let any = || "*".to_owned();
    let which =
        which(world, args)?.unwrap_or_else(|| Which { from: any(), to: any(), kind: any() });
    let packets = world.network.release(&which);
    if packets.is_empty() {
        return Err("nothing of that is held".to_owned());
    }
    for packet in packets {
        world.arrive(packet);
    }
    Ok(())
}

fn cut(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let (one, other) = (args.next("the one")?, args.next("the other")?);
    world.index(&one)?;
    world.index(&other)?;
    world.network.cut(&one, &other);
    if !args.has("one-way") {
        world.network.cut(&other, &one);
    }
    Ok(())
}

fn heal(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    world.network.heal();
    Ok(())
}

fn repeat(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    world.repeat_all();
    Ok(())
}

fn replay(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let which = which(world, args)?.ok_or("FROM->TO is missing")?;
    let mut packet = world.network.old(&which, args.has("oldest"))?;
    packet.again = true;
    world.arrive(packet);
    Ok(())
}

fn crash(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    let before = args.has("before");
    if before || args.has("after") {
        let kind = args.next("the kind of fact")?;
        let known: Vec<_> =
            Fact::kinds().filter_map(|(kind, _)| Some(kind.split_once('.')?.1)).collect();
        if !known.contains(&kind.as_str()) {
            return Err(format!("`{kind}` is no kind of fact; known: {}", known.join(", ")));
        }
        world.participants[who].crash_point = Some(CrashPoint { kind, before });
        return Ok(());
    }
    let name = world.participants[who].name.to_string();
    world.say(&name, "CRASHES and comes back");
    world.crash(who, true);
    Ok(())
}

fn fragile(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    world.participants[who].fragile = true;
    Ok(())
}

fn stop(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    let name = world.participants[who].name.to_string();
    world.say(&name, "is DOWN");
    world.stop(who, true);
    Ok(())
}

fn start(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    if world.participants[who].up {
        return Err("it is up already".to_owned());
    }
    let name = world.participants[who].name.to_string();
    world.say(&name, "comes back");
    world.start(who);
    Ok(())
}

fn clock(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    world.participants[who].ahead = script::span(&args.next("how far it is ahead")?)?;
    Ok(())
}

/// What an actor is started with changes.
fn set(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    let (key, value) = pair(&args.next("the setting")?)?;
    world.participants[who].settings.insert(key.to_string(), value);
    Ok(())
}

fn driver(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    let step = step(&args.next("the step")?)?;
    let behavior = match args.next("how it behaves")?.as_str() {
        "works" => DriverBehavior::Works,
        "fails" => DriverBehavior::Fails,
        "refuses" => DriverBehavior::Refuses,
        "hangs" => DriverBehavior::Hangs,
        "takes" => DriverBehavior::Takes(script::span(&args.next("how long it takes")?)?),
        other => return Err(format!("a driver cannot do `{other}`")),
    };
    let unit = args.option("unit").map(|unit| self::unit(&unit)).transpose()?;
    world.participants[who].behave(step, unit, behavior);
    Ok(())
}

/// The driver answers a call that hangs; with an epoch, one that it was given at another time.
fn answer(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    let (step, unit) = (step(&args.next("the step")?)?, unit(&args.next("the unit")?)?);
    let reply: fn(&Call) -> DriverResult = match args.next("how it went")?.as_str() {
        "works" => |call| done(call, true),
        "fails" => |call| done(call, false),
        "refuses" => refused,
        other => return Err(format!("a driver cannot answer `{other}`")),
    };
    let epoch = args.number_option("epoch")?;
    let hanging = &mut world.participants[who].hanging;
    let found = hanging.iter().position(|call| call.step == step && call.unit == unit);
    let call = match (found, epoch) {
        (Some(found), None) => hanging.remove(found),
        (Some(found), Some(_)) => hanging[found].clone(),
        (None, _) => return Err("no such call hangs".to_owned()),
    };
    let done = DriverResult { epoch: epoch.map_or(call.epoch, Epoch), ..reply(&call) };
    world.hand(who, Input::Driver(done));
    Ok(())
}

fn mapper(world: &mut World, args: &mut Args) -> Result<(), Bad> {
    let who = anybody(world, args)?;
    world.participants[who].asleep = match args.next("`asleep` or `awake`")?.as_str() {
        "asleep" => true,
        "awake" => false,
        other => return Err(format!("a mapper cannot be `{other}`")),
    };
    Ok(())
}

/// Everything works again, and time passes until everything has ended.
fn finish(world: &mut World, _: &mut Args) -> Result<(), Bad> {
    let bounds = Bounds { request: Span::DAY, teardown: Span::HOUR, recovery: Span::HOUR };
    world.audit.healed(world.now, bounds);
    world.network.heal();
    for who in 0..world.participants.len() {
        let participant = &mut world.participants[who];
        participant.well_behaved();
        (participant.asleep, participant.fragile, participant.crash_point) = (false, false, None);
        let hanging: Vec<_> = participant.hanging.drain(..).map(|call| done(&call, true)).collect();
        participant.answers.extend(hanging);
        if !participant.up {
            world.start(who);
        }
    }
    world.finish(Span::DAY.times(7))?;
    show::rest(world);
    Ok(())
}

fn anybody(world: &World, args: &mut Args) -> Result<usize, Bad> {
    world.index(&args.next("the actor")?)
}

/// The actor named next, which has to be a guest.
pub fn guest(world: &World, args: &mut Args) -> Result<usize, Bad> {
    of_role(world, &args.next("the guest")?, Role::ServiceManager)
}

/// The actor named next, which has to be a site.
pub fn site(world: &World, args: &mut Args) -> Result<usize, Bad> {
    of_role(world, &args.next("the site")?, Role::SiteAuthority)
}

/// The actor of that name, which has to be of that role.
pub fn of_role(world: &World, name: &str, role: Role) -> Result<usize, Bad> {
    let who = world.index(name)?;
    let is = world.participants[who].role;
    if is == role { Ok(who) } else { Err(format!("`{name}` is a {is}, not a {role}")) }
}

pub fn lease(world: &World, args: &mut Args) -> Result<(usize, LeaseId), Bad> {
    let (name, number) = script::numbered(&args.next("GUEST/LEASE")?)?;
    let who = of_role(world, &name, Role::ServiceManager)?;
    let (number, part) = number.split_once('.').unwrap_or((&number, "0"));
    let bad = |_| format!("`{number}` is no lease");
    let lease = LeaseId { number: number.parse().map_err(bad)?, part: part.parse().map_err(bad)? };
    Ok((who, lease))
}

fn which(world: &World, args: &mut Args) -> Result<Option<Which>, Bad> {
    let Some(way) = args.maybe() else { return Ok(None) };
    let (from, to) = script::way(&way)?;
    for name in [&from, &to] {
        if name != "*" {
            world.index(name)?;
        }
    }
    let kind = args.kind()?;
    Ok(Some(Which { from, to, kind }))
}

/// `4`, or `2..4` where 2 would do.
fn range(text: &str) -> Result<(NonZeroU32, NonZeroU32), Bad> {
    let number = |n: &str| n.parse().map_err(|_| format!("`{n}` is no number of units"));
    let (min, most) = text.split_once("..").unwrap_or((text, text));
    Ok((number(min)?, number(most)?))
}

pub fn pair(text: &str) -> Result<(Name, String), Bad> {
    let (key, value) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is not `KEY:VALUE`"))?;
    Ok((name(key)?, value.to_owned()))
}

pub fn name(text: &str) -> Result<Name, Bad> {
    Name::new(text).map_err(|bad| bad.to_string())
}

pub fn unit(text: &str) -> Result<UnitId, Bad> {
    let number = text.strip_prefix('u').and_then(|number| number.parse().ok());
    number.map(UnitId).ok_or_else(|| format!("`{text}` is no unit: write `u0`"))
}

fn step(text: &str) -> Result<Step, Bad> {
    let steps = [
        Step::Setup,
        Step::Teardown,
        Step::Join,
        Step::Leave,
        Step::Modify,
        Step::Warn,
        Step::Install,
        Step::Remove,
    ];
    let found = steps.into_iter().find(|step| step.word() == text);
    found.ok_or_else(|| {
        let known = steps.map(Step::word).join(", ");
        format!("`{text}` is no step; known: {known}")
    })
}
