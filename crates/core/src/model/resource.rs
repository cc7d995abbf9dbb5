//! Resource types, their attributes, and conditions on them.
//!
//! Units of one type at one site are interchangeable; what tells types apart is a name and
//! attributes that say how fast, how large, how isolated. Conditions on attributes are expressions
//! ([`tenure_expr`]), and the one kind of property the core itself compares: on a link of a ticket they
//! can be added by each holder that passes it on, never removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tenure_expr::Dimension;
pub use tenure_expr::{Expr, Set, Value};

use crate::model::name::Name;
use crate::model::property::Properties;
use crate::model::time::Span;

/// The attributes of a resource type at one site.
pub type Attributes = BTreeMap<Name, Value>;

/// The attribute that every site has: its name, as known where the expression is evaluated. A site does
/// not state it itself.
pub const SITE: &str = "site";

/// The attribute that a divisible stock has: it is leased as shares of any size, not as numbered units. A
/// site states it of a stock of that kind, and of no other.
pub const DIVISIBLE: &str = "divisible";

/// The attribute of a unit that is delegated on its own: its name, whatever its site states under that.
pub const UNIT: &str = "unit";

/// The attribute of a unit that is delegated on its own: the names of the stacks that it is in, whatever its site
/// states under that.
pub const STACKS: &str = "stacks";

/// The attribute of a divisible stock that is an edge of a network: the names of the two places that it connects,
/// sites or not, as a set.
pub const ENDS: &str = "ends";

/// The attribute of an edge: how long a message takes along it, a duration. None stands for no time at all.
pub const LATENCY: &str = "latency";

/// The attribute of an edge: what it is called in requests for links, if that is not its type.
pub const CARRIES: &str = "carries";

/// The two places that an edge connects; none if a stock with these attributes is no edge.
pub fn ends(attributes: &Attributes) -> Option<[&str; 2]> {
    let Some(Value::Set(set)) = attributes.get(ENDS).filter(|_| is_divisible(attributes)) else {
        return None;
    };
    let mut ends = set.iter().map(|end| match end {
        Value::Text(text) => Some(text.as_str()),
        Value::Flag(_) | Value::Quantity(_) | Value::Version(_) | Value::Set(_) => None,
    });
    match (ends.next(), ends.next(), ends.next()) {
        (Some(Some(one)), Some(Some(other)), None) => Some([one, other]),
        _ => None,
    }
}

/// How long a message takes along an edge.
pub fn latency(attributes: &Attributes) -> Span {
    let Some(Value::Quantity(latency)) = attributes.get(LATENCY) else { return Span::ZERO };
    if latency.dimension() != Dimension::Duration {
        return Span::ZERO;
    }
    i64::try_from(latency.millionths()).map_or(Span::ZERO, Span::from_micros)
}

/// Whether links of `resource` can lead over an edge of the type `of` with these attributes.
pub fn carries(attributes: &Attributes, of: &Name, resource: &Name) -> bool {
    match attributes.get(CARRIES) {
        Some(Value::Text(text)) => text == resource.as_str(),
        Some(_) | None => of == resource,
    }
}

/// Whether a stock with these attributes is divisible.
pub fn is_divisible(attributes: &Attributes) -> bool {
    attributes.get(DIVISIBLE) == Some(&Value::Flag(true))
}

/// The attribute of an overbooked stock: how many units a site delegates beyond the machines that it has.
/// Ledgers count them like all others; between units and machines only the site knows the difference.
pub const OVERBOOKED: &str = "overbooked";

/// The attribute of a best-effort stock: its units are leased only to those who accept that they are recalled.
pub const BEST_EFFORT: &str = "best-effort";

/// Whether a stock with these attributes is best-effort.
pub fn is_best_effort(attributes: &Attributes) -> bool {
    attributes.get(BEST_EFFORT) == Some(&Value::Flag(true))
}

/// How many units are delegated beyond those that there are: a whole number from 0 on. Another value is none.
pub fn overbooked(attributes: &Attributes) -> u32 {
    let Some(Value::Quantity(quantity)) = attributes.get(OVERBOOKED) else { return 0 };
    quantity.whole().and_then(|whole| u32::try_from(whole).ok()).unwrap_or(0)
}

/// `attributes`, and [`SITE`] if the name of the site is known. What the site states under that name does
/// not count.
pub fn at_site(attributes: &Attributes, site: Option<&Name>) -> Attributes {
    let mut attributes = attributes.clone();
    attributes.remove(SITE);
    if let Some(site) = site {
        attributes.insert(Name::literal(SITE), Value::from(site.as_str()));
    }
    attributes
}

/// A set of expressions: all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Constraints(BTreeSet<Expr>);

/// The attribute that a single unit has: its number at its site, such as `u3`.
pub const UNIT_ID: &str = "unit_id";

fn is_of_units(expr: &Expr) -> bool {
    let mut names = expr.attributes().into_iter();
    names.next() == Some(UNIT_ID) && names.next().is_none()
}

impl Constraints {
    /// No constraint at all.
    pub const NONE: Self = Self(BTreeSet::new());

    /// The most expressions on one link of a ticket and in one item of a request. More are not decoded.
    pub const MAX_COUNT: usize = 16;

    /// Adds one; what is there stays.
    pub fn add(&mut self, expr: Expr) {
        self.0.insert(expr);
    }

    /// Whether every constraint of `parent` is still here.
    pub fn keep_all_of(&self, parent: &Self) -> bool {
        self.0.is_superset(&parent.0)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Expr> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same with others.
    pub fn with<'a>(&self, others: impl Iterator<Item = &'a Expr>) -> Self {
        self.iter().cloned().chain(others.cloned()).collect()
    }

    /// Those that are about single units: about nothing but their [`UNIT_ID`].
    pub fn of_units(&self) -> impl Iterator<Item = &Expr> {
        self.0.iter().filter(|expr| is_of_units(expr))
    }

    /// Whether a unit of this number, such as `u3`, will do.
    pub fn allow_unit(&self, number: &str) -> bool {
        let unit = BTreeMap::from([(UNIT_ID, Value::Text(number.to_owned()))]);
        self.of_units().all(|expr| expr.matches(&unit) == Ok(true))
    }

    /// The first expression that does not hold of the site's `attributes` and, where they say nothing, of
    /// the guest's `configuration`, each property [read](Value::read) as a value. One with an attribute
    /// that neither states does not hold, nor one that has no value: what is not stated is not promised. Those
    /// [of single units](Self::of_units) are not looked at.
    pub fn first_broken(
        &self,
        attributes: &Attributes,
        configuration: &Properties,
    ) -> Option<&Expr> {
        if self.is_empty() {
            return None;
        }
        let configured = self.configured(attributes, configuration);
        let stated = (attributes, &configured);
        self.0.iter().find(|expr| !is_of_units(expr) && expr.matches(&stated) != Ok(true))
    }

    /// As [`first_broken`](Self::first_broken), with the reason. Attributes of the names `known` exist
    /// elsewhere: of a name that does not, the nearest one is suggested.
    pub fn first_unmet(
        &self,
        attributes: &Attributes,
        configuration: &Properties,
        known: &[&str],
    ) -> Option<Unmet> {
        let broken = self.first_broken(attributes, configuration)?;
        let configured = self.configured(attributes, configuration);
        let explanation = broken.explain(&(attributes, &configured));
        let names = attributes.keys().map(Name::as_str).chain(configured.keys().copied());
        Some(Unmet::new(broken.clone(), explanation.in_words(names.chain(known.iter().copied()))))
    }

    /// What the guest's configuration says of what the site does not.
    fn configured(
        &self,
        attributes: &Attributes,
        configuration: &Properties,
    ) -> BTreeMap<&str, Value> {
        let names = self.0.iter().flat_map(Expr::attributes);
        let open = names.filter(|name| !attributes.contains_key(*name));
        open.filter_map(|name| Some((name, Value::read(configuration.get(name)?)))).collect()
    }
}

impl FromIterator<Expr> for Constraints {
    fn from_iter<I: IntoIterator<Item = Expr>>(constraints: I) -> Self {
        Self(constraints.into_iter().collect())
    }
}

impl Extend<Expr> for Constraints {
    fn extend<I: IntoIterator<Item = Expr>>(&mut self, constraints: I) {
        self.0.extend(constraints);
    }
}

impl<'de> Deserialize<'de> for Constraints {
    /// Stops at the first expression too many: reading one costs more than its bytes say.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = Constraints;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {} expressions", Constraints::MAX_COUNT)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Constraints, A::Error> {
                let mut constraints = Constraints::NONE;
                let mut count = 0;
                while let Some(expr) = seq.next_element()? {
                    count += 1;
                    if count > Constraints::MAX_COUNT {
                        return Err(de::Error::invalid_length(count, &self));
                    }
                    constraints.add(expr);
                }
                Ok(constraints)
            }
        }

        deserializer.deserialize_seq(Bounded)
    }
}

/// An expression that does not hold, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmet {
    /// The expression.
    pub requirement: Expr,
    /// The reasons, in words.
    pub why: String,
}

impl Unmet {
    /// The longest explanation, in bytes; the end of a longer one is left out.
    pub const MAX_WHY: usize = 1024;

    /// An expression that does not hold, and why.
    pub fn new(requirement: Expr, mut why: String) -> Self {
        if why.len() > Self::MAX_WHY {
            why.truncate(why.floor_char_boundary(Self::MAX_WHY - "...".len()));
            why.push_str("...");
        }
        Self { requirement, why }
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::codec;

    fn constraints(sources: &[&str]) -> Constraints {
        sources.iter().map(|source| Expr::parse(source).unwrap()).collect()
    }

    fn attributes(given: &[(&str, &str)]) -> Attributes {
        let value = |(key, value): &(&str, &str)| (Name::new(key).unwrap(), Value::read(value));
        given.iter().map(value).collect()
    }

    fn configuration(key: &str, value: &str) -> Properties {
        Properties::try_from(BTreeMap::from([(Name::new(key).unwrap(), value.to_owned())])).unwrap()
    }

    fn unmet(source: &str, given: &[(&str, &str)]) -> String {
        let attributes = attributes(given);
        let unmet =
            constraints(&[source]).first_unmet(&attributes, &Properties::default(), &["gpus"]);
        unmet.map(|unmet| unmet.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_constraint_on_an_unstated_key_is_broken() {
        let constraints = constraints(&["cpus >= 2"]);
        let broken = |given| constraints.first_broken(&attributes(given), &Properties::default());
        assert_eq!(broken(&[]), constraints.iter().next());
        assert_eq!(broken(&[("cpus", "2")]), None);
    }

    #[test]
    fn a_guest_cannot_talk_its_way_past_an_attribute() {
        let constraints = constraints(&["cpus >= 4"]);
        let stated = attributes(&[("cpus", "1")]);
        assert!(constraints.first_broken(&stated, &configuration("cpus", "8")).is_some());
    }

    #[test]
    fn what_a_site_does_not_fix_the_guest_may_choose_within_the_constraint() {
        let constraints = constraints(&[r#"image = "debian""#, "disk <= 10GB"]);
        let stated = attributes(&[("disk", "8GB")]);
        let broken = |image| constraints.first_broken(&stated, &configuration("image", image));
        assert_eq!(broken("debian"), None);
        assert!(broken("other").is_some());
        // A value of another type is no match either.
        assert!(broken("8").is_some());
    }

    #[test]
    fn the_name_of_a_site_is_not_its_own_to_state() {
        let stated = attributes(&[("site", "a"), ("cpus", "8")]);
        let b = Name::literal("b");
        assert_eq!(at_site(&stated, Some(&b)), attributes(&[("site", "b"), ("cpus", "8")]));
        assert_eq!(at_site(&stated, None), attributes(&[("cpus", "8")]));
    }

    #[test]
    fn what_does_not_hold_is_explained_within_bounds() {
        let memory = [("memory", "8GiB")];
        assert_eq!(unmet("memory >= 16GiB", &memory), "memory >= 16GiB: memory is 8GiB");
        let near = "unknown attribute `memroy`; did you mean `memory`?";
        assert_eq!(unmet("memroy >= 16GiB", &memory), near);
        assert_eq!(unmet("gpus >= 1", &memory), "`gpus` is not stated");
        assert_eq!(unmet("memory < 9GiB", &memory), "");
        let long = "ä".repeat(3000);
        let why = unmet(r#"image = "x""#, &[("image", &long)]);
        assert!(why.len() <= Unmet::MAX_WHY && why.ends_with("ä..."), "{why}");
    }

    #[test]
    fn no_more_than_so_many_are_decoded() {
        let many = |count| -> Vec<String> { (0..count).map(|n| format!("n{n:02} = 1")).collect() };
        let decode = |count| codec::decode::<Constraints>(&codec::encode(&many(count)));
        assert_eq!(decode(Constraints::MAX_COUNT).unwrap().len(), Constraints::MAX_COUNT);
        assert!(decode(Constraints::MAX_COUNT + 1).is_err());
    }

    #[test]
    fn only_the_canonical_text_of_an_expression_is_decoded() {
        let decode = |text: &str| codec::decode::<Constraints>(&codec::encode(&vec![text]));
        assert!(decode("cpus = 8").is_ok());
        assert!(decode("cpus == 8").is_err());
        assert!(decode("(cpus = 8)").is_err());
        assert!(decode("cpus =").is_err());
    }

    fn any_expr() -> impl Strategy<Value = Expr> {
        let key = prop::sample::select(vec!["a", "b", "c", "site"]);
        let comparison = (key, prop::sample::select(vec!["=", "!=", "<", ">="]), 0..3i64);
        let comparison = comparison.prop_map(|(key, sign, n)| format!("{key} {sign} {n}"));
        let joined = prop::sample::select(vec!["and", "or", "and not"]);
        (comparison.clone(), joined, comparison)
            .prop_map(|(a, joined, b)| Expr::parse(&format!("{a} {joined} {b}")).unwrap())
    }

    fn any_value() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["0", "1", "2", "true", "text"]).prop_map(str::to_owned)
    }

    fn any_map() -> impl Strategy<Value = BTreeMap<Name, String>> {
        let key = prop::sample::select(["a", "b", "c"].map(Name::literal).to_vec());
        prop::collection::btree_map(key, any_value(), 0..4)
    }

    proptest! {
        /// Along a chain of links, each with expressions of its own added, nothing is admitted that a
        /// link above refuses.
        #[test]
        fn a_chain_never_admits_what_a_link_above_refuses(
            added in prop::collection::vec(prop::collection::vec(any_expr(), 0..3), 1..6),
            stated in any_map(),
            configured in any_map(),
        ) {
            let stated = stated.iter().map(|(key, value)| (key.clone(), Value::read(value)));
            let stated = at_site(&stated.collect(), Some(&Name::literal("alpha")));
            let configured = Properties::try_from(configured).unwrap();
            let (mut above, mut refused) = (Constraints::NONE, false);
            for added in added {
                let mut link = above.clone();
                link.extend(added);
                prop_assert!(link.keep_all_of(&above));
                let refuses = link.first_broken(&stated, &configured).is_some();
                prop_assert!(refuses || !refused, "{link:?} admits what {above:?} refuses");
                (above, refused) = (link, refuses);
            }
        }
    }
}
