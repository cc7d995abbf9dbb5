//! The stocks of a site, as scenarios and live configurations have them.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;

use serde::Deserialize;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::resource::{Attributes, DIVISIBLE, SITE, Value, is_divisible, overbooked};
use tenure_core::model::time::Span;
use tenure_core::site_authority::{self, Offer, Plan, Stacks, is_number};
use toml::Spanned;

use crate::{ConfigError, Sources, attributes, suggestion};

/// The most units of one site.
pub const MAX_UNITS: u32 = 100_000;

/// The type of units where none is named.
pub const NODE: &str = "node";

/// What units are like, as written.
pub type RawAttributes = BTreeMap<Name, Spanned<toml::Value>>;

/// Units with names, each with attributes of its own, as written.
pub type RawUnits = BTreeMap<Spanned<Name>, RawAttributes>;

/// Names of brokers, as written.
pub type RawBrokers = Spanned<Vec<Spanned<Name>>>;

/// The units of each stack by their names, as written.
pub type RawStacks = BTreeMap<Spanned<Name>, Vec<Spanned<Name>>>;

/// How many units there are of a type whose units are made when they are leased, unless it says so.
pub(crate) const MINTED: u32 = 1_000;

/// The attribute of types whose units are made when they are leased.
const MINT: &str = "mint";

/// A stock, as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RawStock {
    /// How many units there are, or how much.
    pub units: Option<Spanned<u32>>,
    /// How it is leased.
    #[serde(default)]
    pub kind: StockKind,
    /// Whether its units are made when they are leased, so that there are as many as anybody needs.
    #[serde(default)]
    pub mint: bool,
    /// What it is like.
    #[serde(default)]
    pub attributes: RawAttributes,
    /// Units with names.
    #[serde(default)]
    pub named: RawUnits,
    /// Whom it is delegated to.
    pub brokers: Option<RawBrokers>,
    /// For how long at a time.
    pub delegation: Option<Spanned<Span>>,
}

/// How a stock is leased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StockKind {
    /// As so many units.
    #[default]
    Units,
    /// As shares of any size.
    Share,
}

impl RawStock {
    /// How many units it says there are: its number, or as many as have names, or 1,000 if they are minted.
    pub fn stated(&self) -> Option<u32> {
        let named = (!self.named.is_empty()).then(|| count(self.named.len()));
        let stated = self.units.as_ref().map(|units| *units.get_ref()).or(named);
        stated.or_else(|| self.mint.then_some(MINTED))
    }

    /// Where a key of it stands, if one does.
    fn place(&self) -> Option<Range<usize>> {
        let attribute = self.attributes.values().next().map(Spanned::span);
        let brokers = self.brokers.as_ref().map(Spanned::span);
        attribute.or(brokers).or_else(|| self.delegation.as_ref().map(Spanned::span))
    }
}

/// All stocks of a site, as written.
#[derive(Debug)]
pub struct RawStocks {
    /// Where the name of the site stands.
    pub place: Range<usize>,
    /// The type of the stock that the site's own keys describe.
    pub resource: Option<Spanned<Name>>,
    /// The stock that the site's own keys describe.
    pub own: RawStock,
    /// Further ones, by type.
    pub further: BTreeMap<Spanned<Name>, RawStock>,
    /// Which units belong together.
    pub stacks: RawStacks,
}

impl RawStocks {
    /// Whether the site's own keys describe a stock.
    pub fn has_own(&self) -> bool {
        self.own.stated().is_some() || self.further.is_empty()
    }

    /// Every stock.
    pub fn each(&self) -> impl Iterator<Item = &RawStock> {
        self.has_own().then_some(&self.own).into_iter().chain(self.further.values())
    }
}

/// The units of one type at a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Stock {
    /// How many there are, named ones included; of a divisible stock, how much.
    pub units: u32,
    /// What they are like.
    pub attributes: Attributes,
    /// Those that have names, each with what it is like beyond that.
    pub named: BTreeMap<Name, Attributes>,
    /// How many are delegated to each broker.
    pub brokers: BTreeMap<Name, NonZeroU32>,
    /// For how long at a time.
    pub delegation: Span,
}

impl Stock {
    /// How many units it has that can be told apart; a divisible stock has none.
    pub fn countable(&self) -> u32 {
        if is_divisible(&self.attributes) { 0 } else { self.units }
    }

    /// What the actor of its site is told that it has of this type.
    pub fn planned(&self, resource: &Name) -> site_authority::Stock {
        site_authority::Stock {
            resource: resource.clone(),
            attributes: self.attributes.clone(),
            units: self.units,
            named: self.named.clone(),
        }
    }
}

/// What the actor of a site with these stocks and stacks has and delegates. `renew_before` says how long before
/// its end a delegation of such a length is renewed.
pub fn plan(
    stocks: &BTreeMap<Name, Stock>,
    stacks: &Stacks,
    renew_before: impl Fn(Span) -> Span,
    broker_id: impl Fn(&Name) -> Option<ActorId>,
) -> Plan {
    let stock = stocks.iter().map(|(resource, stock)| stock.planned(resource));
    let each = stocks.iter().flat_map(|(resource, stock)| {
        stock.brokers.iter().map(move |(broker, units)| (resource, stock, broker, *units))
    });
    let offers = each.filter_map(|(resource, stock, broker, units)| {
        Some(Offer {
            broker: broker_id(broker)?,
            resource: resource.clone(),
            unit: None,
            units,
            length: stock.delegation,
            renew_before: renew_before(stock.delegation),
        })
    });
    let (stock, offers) = (stock.collect(), offers.collect());
    Plan { stock, stacks: stacks.clone(), offers, ..Plan::default() }
}

/// What is wrong with a value, and what to do about it.
pub type Wrong = (String, String);

/// Reads stocks: fills in defaults, and checks.
pub struct StockReader<'a> {
    /// Where they are written.
    pub sources: &'a Sources<'a>,
    /// The brokers that there are.
    pub brokers: Vec<&'a Name>,
    /// How long a delegation lasts that says nothing else.
    pub delegation: Span,
    /// What is wrong with a delegation of such a length.
    pub delegable: &'a dyn Fn(Span) -> Result<(), Wrong>,
}

impl StockReader<'_> {
    /// The stocks of a site by type, and its stacks.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and a help line.
    pub fn read(&self, raw: RawStocks) -> Result<(BTreeMap<Name, Stock>, Stacks), ConfigError> {
        let has_own = raw.has_own();
        let RawStocks { place, resource, own, further, stacks } = raw;
        let stray = resource.as_ref().map(Spanned::span).or_else(|| own.place());
        if let Some(stray) = stray.filter(|_| !has_own) {
            let message = "the site has no units of its own that this would hold for";
            return self.refuse(stray, message, "write it into the tables of its stocks");
        }
        let resource = resource.unwrap_or_else(|| Spanned::new(place, Name::literal(NODE)));
        let own = has_own.then_some((resource, own));
        let (mut stocks, mut named) = (BTreeMap::new(), BTreeSet::new());
        for (resource, stock) in own.into_iter().chain(further) {
            let units = stock.named.keys();
            if let Some(twice) = units.clone().find(|name| named.contains(name.get_ref())) {
                let message = format!("two units are named `{}`", twice.get_ref());
                return self.refuse(twice.span(), message, "give each a name of its own");
            }
            named.extend(units.map(|name| name.get_ref().clone()));
            let at = resource.span();
            let stock = self.stock(stock, &at)?;
            if stocks.insert(resource.into_inner(), stock).is_some() {
                let help = "write the keys of one type in one place";
                return self.refuse(at, "two stocks of one type", help);
            }
        }
        let stacks = self.stacks(stacks, &stocks)?;
        Ok((stocks, stacks))
    }

    pub(crate) fn refuse<T>(
        &self,
        place: Range<usize>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Result<T, ConfigError> {
        Err(self.sources.error(place, message, help.into()))
    }

    fn stock(&self, stock: RawStock, place: &Range<usize>) -> Result<Stock, ConfigError> {
        let (units, at) = self.units(&stock, place)?;
        if units > MAX_UNITS && stock.kind == StockKind::Units {
            let message = format!("{units} units are more than the {MAX_UNITS} of one site");
            return self.refuse(at, message, "make several sites of them");
        }
        let delegation = self.delegation(stock.delegation.as_ref())?;
        let brokers = named_brokers(stock.brokers, self.brokers.iter().copied(), self.sources)?;
        let mut attributes = self.attributes_of(stock.attributes, stock.kind)?;
        if stock.mint {
            attributes.insert(Name::literal(MINT), Value::Flag(true));
        }
        let brokers = shares(brokers, units.saturating_add(overbooked(&attributes)));
        let mut named = BTreeMap::new();
        for (name, attributes) in stock.named {
            if is_number(name.get_ref()) {
                let message =
                    format!("`{}` is how the unit of that number is called", name.get_ref());
                return self.refuse(name.span(), message, "choose another name");
            }
            named.insert(name.into_inner(), self.attributes(attributes)?);
        }
        Ok(Stock { units, attributes, named, brokers, delegation })
    }

    /// How many units a stock has, and the place that says so.
    fn units(
        &self,
        stock: &RawStock,
        place: &Range<usize>,
    ) -> Result<(u32, Range<usize>), ConfigError> {
        let named = count(stock.named.len());
        if let Some(name) = stock.named.keys().next().filter(|_| stock.kind == StockKind::Share) {
            let help = "leave the units out, or write `kind = \"units\"`";
            return self.refuse(name.span(), "a stock of shares has no units with names", help);
        }
        if stock.mint && stock.kind == StockKind::Share {
            let help = "write `kind = \"units\"`";
            return self.refuse(place.clone(), "a stock of shares is not minted", help);
        }
        let Some(units) = &stock.units else {
            if let Some(stated) = stock.stated() {
                return Ok((stated, place.clone()));
            }
            let help = "write how many there are";
            return self.refuse(place.clone(), "a stock without `units`", help);
        };
        match *units.get_ref() {
            0 => self.refuse(units.span(), "a site without units lends none", "add units"),
            fewer if fewer < named => {
                let message = format!("`units` is {fewer}, and {named} have names");
                self.refuse(units.span(), message, "count those with names as well")
            }
            units_in_all => Ok((units_in_all, units.span())),
        }
    }

    fn delegation(&self, given: Option<&Spanned<Span>>) -> Result<Span, ConfigError> {
        let Some(given) = given else { return Ok(self.delegation) };
        let length = *given.get_ref();
        let checked = (self.delegable)(length);
        checked.map(|()| length).or_else(|(message, help)| self.refuse(given.span(), message, help))
    }

    /// The attributes of a stock of a kind, which they say.
    fn attributes_of(
        &self,
        given: RawAttributes,
        kind: StockKind,
    ) -> Result<Attributes, ConfigError> {
        if let Some(stated) = given.get(DIVISIBLE) {
            let message = format!("the attribute `{DIVISIBLE}` follows from the kind of the stock");
            return self.refuse(stated.span(), message, "write `kind = \"share\"` instead");
        }
        let mut attributes = self.attributes(given)?;
        if kind == StockKind::Share {
            attributes.insert(Name::literal(DIVISIBLE), Value::Flag(true));
        }
        Ok(attributes)
    }

    fn attributes(&self, given: RawAttributes) -> Result<Attributes, ConfigError> {
        attributes(given, SITE).or_else(|bad| self.refuse(bad.span, bad.message, bad.help))
    }
}

/// The brokers that are named, each once, or all that there are.
///
/// # Errors
/// A name that no broker has, or that stands there twice.
pub fn named_brokers<'a>(
    named: Option<RawBrokers>,
    known: impl Iterator<Item = &'a Name> + Clone,
    sources: &Sources<'_>,
) -> Result<Vec<Name>, ConfigError> {
    let Some(named) = named else { return Ok(known.cloned().collect()) };
    let mut brokers = Vec::new();
    for name in named.into_inner() {
        known_broker(&name, known.clone(), sources)?;
        if brokers.contains(name.get_ref()) {
            let message = format!("the broker `{}` is named twice", name.get_ref());
            let help = "name each broker once".to_owned();
            return Err(sources.error(name.span(), message, help));
        }
        brokers.push(name.into_inner());
    }
    Ok(brokers)
}

/// Whether there is a broker of this name.
///
/// # Errors
/// That there is none, with the most similar one.
pub fn known_broker<'a>(
    name: &Spanned<Name>,
    mut known: impl Iterator<Item = &'a Name> + Clone,
    sources: &Sources<'_>,
) -> Result<(), ConfigError> {
    let names = known.clone().map(Name::as_str);
    if known.any(|known| known == name.get_ref()) {
        return Ok(());
    }
    let help = suggestion(name.get_ref().as_str(), names);
    Err(sources.error(name.span(), format!("no broker `{}`", name.get_ref()), help))
}

/// `units` in shares as even as can be, the first ones larger; who would get none is left out.
fn shares(brokers: Vec<Name>, units: u32) -> BTreeMap<Name, NonZeroU32> {
    let shares = even_shares(units, brokers.len());
    let shares = brokers.into_iter().zip(shares);
    shares.filter_map(|(broker, units)| Some((broker, NonZeroU32::new(units)?))).collect()
}

/// `units` in `parts` shares as even as can be, the first ones larger.
pub fn even_shares(units: u32, parts: usize) -> impl Iterator<Item = u32> {
    let parts = count(parts);
    (0..parts).map(move |part| units / parts + u32::from(part < units % parts))
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
