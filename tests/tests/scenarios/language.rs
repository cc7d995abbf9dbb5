//! What a script can say: every command with what it does.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use tenure_core::actor::Role;
use tenure_core::actor::effect::DriverResult;
use tenure_core::runtime::{Fact, Input};
use tenure_core::service_manager::Command as GuestCommand;
use tenure_core::site_authority::Command as SiteCommand;

use tenure_core::actor::snapshot;
use tenure_core::driver::{Epoch, Step, UnitId};
use tenure_core::model::codec::Hash;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::{Constraint, Constraints, Test, Value};
use tenure_core::model::slice::LeaseId;
use tenure_core::model::time::Span;
use tenure_core::service_manager::mapper::Ask;
use tenure_core::wire::message::Item;
use tenure_laws::Bounds;

use super::deployment;
use super::forge;
use super::network::{Fate, Which};
use super::participant::{CrashPoint, DriverBehavior, done};
use super::script::{self, Bad, Words};
use super::show;
use super::world::World;

/// A command: how it is written, and what it does.
pub struct Known {
    pub usage: &'static str,
    act: fn(&mut World, &mut Words) -> Result<(), Bad>,
}

/// Every command but `deployment` and `quietly`.
pub const COMMANDS: &[Known] = &[
    Known {
        usage: "ask GUEST UNITS TYPE.. from=TIME for=SPAN [latest=TIME] [answer-by=TIME] [broker=NAME] [needs=KEY:VALUE] [with=KEY:TEXT]",
        act: ask,
    },
    Known { usage: "extend GUEST/LEASE for=SPAN", act: extend },
    Known { usage: "close GUEST/LEASE", act: close },
    Known { usage: "stock SITE UNITS TYPE", act: stock },
    Known { usage: "withdraw SITE UNITS TYPE", act: withdraw },
    Known { usage: "reset SITE UNIT", act: reset },
    Known { usage: "advance SPAN | to TIME", act: advance },
    Known {
        usage: "drop FROM->TO KIND [times=N]",
        act: |world, words| rule(world, words, Fate::Lost),
    },
    Known {
        usage: "hold FROM->TO KIND [times=N]",
        act: |world, words| rule(world, words, Fate::Held),
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
    Known { usage: "driver NAME STEP works|fails|hangs|takes SPAN [unit=UNIT]", act: driver },
    Known { usage: "answer NAME STEP UNIT works|fails [epoch=N]", act: answer },
    Known { usage: "mapper NAME asleep|awake", act: mapper },
    Known {
        usage: "forge ask GUEST UNITS TYPE from=TIME for=SPAN [latest=TIME] [as=GUEST] [on=TICKET]",
        act: forge::ask,
    },
    Known { usage: "forge grant BROKER GUEST/REQUEST UNITS from=TICKET", act: forge::grant },
    Known { usage: "forge alter TICKET [units=N] [end=TIME] [holder=NAME]", act: forge::alter },
    Known { usage: "forge redeem GUEST TICKET [at=SITE]", act: forge::redeem },
    Known { usage: "forge close GUEST TICKET [at=SITE]", act: forge::close },
    Known { usage: "forge credit GUEST TICKET", act: forge::credit },
    Known {
        usage: "evidence TICKET.. [without=TICKET] [at=TIME] [excused=yes]",
        act: forge::evidence,
    },
    Known { usage: "show leases", act: show::leases },
    Known { usage: "show units", act: show::units },
    Known { usage: "show books", act: show::books },
    Known { usage: "finish", act: finish },
];

/// The deployment of a script, once it has one.
#[derive(Default)]
pub struct Stage(Option<World>);

impl Stage {
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
    pub fn perform(&mut self, mut words: Words) -> Result<Vec<String>, Bad> {
        let quietly = words.has("quietly");
        if words.has("deployment") {
            self.0 = Some(deployment::deploy(words)?);
        } else {
            let world = self.0.as_mut().ok_or("a script begins with `deployment`")?;
            act(world, &mut words)?;
        }
        let mut trace = self.0.as_mut().map(World::take_trace).unwrap_or_default();
        if quietly {
            // That all is over is always said.
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

fn act(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let fits = |known: &&Known, words: &Words| words.begin_with(&verb(known.usage));
    let Some(known) = COMMANDS.iter().find(|known| fits(known, words)) else {
        let known: Vec<_> = COMMANDS.iter().map(|known| format!("  {}", known.usage)).collect();
        let word = words.maybe().unwrap_or_default();
        return Err(format!(
            "there is no command `{word}`; known:\n  deployment [at=TIME] [margin=SPAN] [retry=SPAN] [clocks=apart]\n  quietly COMMAND\n{}",
            known.join("\n")
        ));
    };
    for _ in verb(known.usage) {
        words.maybe();
    }
    let told = |bad: Bad| format!("{bad}\n  write `{}`", known.usage);
    (known.act)(world, words).map_err(told)?;
    words.done().map_err(told)?;
    world.run()
}

fn ask(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = guest(world, words)?;
    let needs = words.option("needs").map(|text| pair(&text)).transpose()?;
    let mut requirements = Constraints::NONE;
    if let Some((key, value)) = needs {
        requirements.add(Constraint { key, test: Test::Equals(Value::read(&value)) });
    }
    let mut items = Vec::new();
    while let Some(units) = words.maybe() {
        let (least, units) = range(&units)?;
        let resource = name(&words.next("the type of the units")?)?;
        items.push(Item {
            resource,
            units,
            least,
            requirements: requirements.clone(),
            extends: None,
        });
    }
    let earliest = words.time_option("from")?.unwrap_or(world.now);
    let duration = words.span_option("for")?.ok_or("for= is missing")?;
    let latest = words.time_option("latest")?.unwrap_or(earliest);
    let answer_by = words.time_option("answer-by")?.unwrap_or(latest.plus(duration));
    let broker = words.option("broker").map(|broker| world.index(&broker)).transpose()?;
    let configuration = match words.option("with").map(|text| pair(&text)).transpose()? {
        Some(pair) => {
            Properties::try_from(BTreeMap::from([pair])).map_err(|bad| bad.to_string())?
        }
        None => Properties::default(),
    };
    let ask = Ask {
        broker: broker.map(|broker| world.id(broker)),
        slice: Name::literal("main"),
        items,
        earliest,
        latest,
        duration,
        answer_by,
        properties: Properties::default(),
        configuration,
        reason: "the script".to_owned(),
    };
    world.hand(who, Input::Command(GuestCommand::Ask(ask).into()));
    Ok(())
}

fn extend(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let (who, lease) = lease(world, words)?;
    let duration = words.span_option("for")?.ok_or("for= is missing")?;
    world.hand(who, Input::Command(GuestCommand::Extend { lease, duration }.into()));
    Ok(())
}

fn close(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let (who, lease) = lease(world, words)?;
    world.hand(who, Input::Command(GuestCommand::Close { lease }.into()));
    Ok(())
}

fn stock(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = site(world, words)?;
    let (units, resource) = (words.number("the number of units")?, words.next("the type")?);
    let resource = name(&resource)?;
    world.hand(who, Input::Command(SiteCommand::Stock { resource, units }.into()));
    Ok(())
}

fn withdraw(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = site(world, words)?;
    let (units, resource) = (words.number("the number of units")?, words.next("the type")?);
    let resource = name(&resource)?;
    world.hand(who, Input::Command(SiteCommand::Withdraw { resource, units }.into()));
    Ok(())
}

fn reset(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let (who, unit) = (site(world, words)?, unit(&words.next("the unit")?)?);
    world.hand(who, Input::Command(SiteCommand::Reset { unit }.into()));
    Ok(())
}

fn advance(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let until = if words.has("to") {
        script::time(&words.next("the time")?)?
    } else {
        world.now.plus(script::span(&words.next("for how long")?)?)
    };
    world.advance_to(until)
}

fn rule(world: &mut World, words: &mut Words, fate: Fate) -> Result<(), Bad> {
    let which = which(world, words)?.ok_or("FROM->TO is missing")?;
    world.network.rule(which, fate, words.number_option("times")?);
    Ok(())
}

fn deliver(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let any = || "*".to_owned();
    let which =
        which(world, words)?.unwrap_or_else(|| Which { from: any(), to: any(), kind: any() });
    let parcels = world.network.release(&which);
    if parcels.is_empty() {
        return Err("nothing of that is held".to_owned());
    }
    for parcel in parcels {
        world.arrive(parcel);
    }
    Ok(())
}

fn cut(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let (one, other) = (words.next("the one")?, words.next("the other")?);
    world.index(&one)?;
    world.index(&other)?;
    world.network.cut(&one, &other);
    if !words.has("one-way") {
        world.network.cut(&other, &one);
    }
    Ok(())
}

fn heal(world: &mut World, _: &mut Words) -> Result<(), Bad> {
    world.network.heal();
    Ok(())
}

fn repeat(world: &mut World, _: &mut Words) -> Result<(), Bad> {
    world.repeat_all();
    Ok(())
}

fn replay(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let which = which(world, words)?.ok_or("FROM->TO is missing")?;
    let mut parcel = world.network.old(&which, words.has("oldest"))?;
    parcel.again = true;
    world.arrive(parcel);
    Ok(())
}

fn crash(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    let before = words.has("before");
    if before || words.has("after") {
        let kind = words.next("the kind of fact")?;
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

fn fragile(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    world.participants[who].fragile = true;
    Ok(())
}

fn stop(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    let name = world.participants[who].name.to_string();
    world.say(&name, "is DOWN");
    world.stop(who, true);
    Ok(())
}

fn start(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    if world.participants[who].up {
        return Err("it is up already".to_owned());
    }
    let name = world.participants[who].name.to_string();
    world.say(&name, "comes back");
    world.start(who);
    Ok(())
}

fn clock(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    world.participants[who].ahead = script::span(&words.next("how far it is ahead")?)?;
    Ok(())
}

fn driver(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    let step = step(&words.next("the step")?)?;
    let behavior = match words.next("how it behaves")?.as_str() {
        "works" => DriverBehavior::Works,
        "fails" => DriverBehavior::Fails,
        "hangs" => DriverBehavior::Hangs,
        "takes" => DriverBehavior::Takes(script::span(&words.next("how long it takes")?)?),
        other => return Err(format!("a driver cannot do `{other}`")),
    };
    let unit = words.option("unit").map(|unit| self::unit(&unit)).transpose()?;
    world.participants[who].behave(step, unit, behavior);
    Ok(())
}

/// The driver answers a call that hangs; with an epoch, one that it was given at another time.
fn answer(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    let (step, unit) = (step(&words.next("the step")?)?, unit(&words.next("the unit")?)?);
    let works = match words.next("how it went")?.as_str() {
        "works" => true,
        "fails" => false,
        other => return Err(format!("a driver cannot answer `{other}`")),
    };
    let epoch = words.number_option("epoch")?;
    let hanging = &mut world.participants[who].hanging;
    let found = hanging.iter().position(|call| call.step == step && call.unit == unit);
    let call = match (found, epoch) {
        (Some(found), None) => hanging.remove(found),
        (Some(found), Some(_)) => hanging[found].clone(),
        (None, _) => return Err("no such call hangs".to_owned()),
    };
    let done = DriverResult { epoch: epoch.map_or(call.epoch, Epoch), ..done(&call, works) };
    world.hand(who, Input::Driver(done));
    Ok(())
}

fn mapper(world: &mut World, words: &mut Words) -> Result<(), Bad> {
    let who = anybody(world, words)?;
    world.participants[who].asleep = match words.next("`asleep` or `awake`")?.as_str() {
        "asleep" => true,
        "awake" => false,
        other => return Err(format!("a mapper cannot be `{other}`")),
    };
    Ok(())
}

/// Everything works again, and time passes until all is over.
fn finish(world: &mut World, _: &mut Words) -> Result<(), Bad> {
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

fn anybody(world: &World, words: &mut Words) -> Result<usize, Bad> {
    world.index(&words.next("the actor")?)
}

/// The actor named next, which has to be a guest.
pub fn guest(world: &World, words: &mut Words) -> Result<usize, Bad> {
    of_role(world, &words.next("the guest")?, Role::ServiceManager)
}

/// The actor named next, which has to be a site.
pub fn site(world: &World, words: &mut Words) -> Result<usize, Bad> {
    of_role(world, &words.next("the site")?, Role::SiteAuthority)
}

/// The actor of that name, which has to be of that role.
pub fn of_role(world: &World, name: &str, role: Role) -> Result<usize, Bad> {
    let who = world.index(name)?;
    let is = world.participants[who].role;
    if is == role { Ok(who) } else { Err(format!("`{name}` is a {is}, not a {role}")) }
}

fn lease(world: &World, words: &mut Words) -> Result<(usize, LeaseId), Bad> {
    let (name, number) = script::numbered(&words.next("GUEST/LEASE")?)?;
    let who = of_role(world, &name, Role::ServiceManager)?;
    let (number, part) = number.split_once('.').unwrap_or((&number, "0"));
    let bad = |_| format!("`{number}` is no lease");
    let lease = LeaseId { number: number.parse().map_err(bad)?, part: part.parse().map_err(bad)? };
    Ok((who, lease))
}

fn which(world: &World, words: &mut Words) -> Result<Option<Which>, Bad> {
    let Some(way) = words.maybe() else { return Ok(None) };
    let (from, to) = script::way(&way)?;
    for name in [&from, &to] {
        if name != "*" {
            world.index(name)?;
        }
    }
    let kind = words.kind()?;
    Ok(Some(Which { from, to, kind }))
}

/// `4`, or `2..4` where 2 would do.
fn range(text: &str) -> Result<(NonZeroU32, NonZeroU32), Bad> {
    let number = |n: &str| n.parse().map_err(|_| format!("`{n}` is no number of units"));
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    Ok((number(least)?, number(most)?))
}

fn pair(text: &str) -> Result<(Name, String), Bad> {
    let (key, value) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is not `KEY:VALUE`"))?;
    Ok((name(key)?, value.to_owned()))
}

fn name(text: &str) -> Result<Name, Bad> {
    Name::new(text).map_err(|bad| bad.to_string())
}

fn unit(text: &str) -> Result<UnitId, Bad> {
    let number = text.strip_prefix('u').and_then(|number| number.parse().ok());
    number.map(UnitId).ok_or_else(|| format!("`{text}` is no unit: write `u0`"))
}

fn step(text: &str) -> Result<Step, Bad> {
    let steps = [Step::Setup, Step::Teardown, Step::Join, Step::Leave];
    let found = steps.into_iter().find(|step| step.word() == text);
    found.ok_or_else(|| format!("`{text}` is no step; known: setup, teardown, join, leave"))
}
