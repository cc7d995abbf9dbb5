//! Files that say what a request asks for: units at several sites, and the links between them.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use serde::Deserialize;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::resource::Expr;
use tenure_core::model::time::Span;
use tenure_node::api::LinkRequest;
use tenure_node::api::moment::Moment;

use super::args::{Lasting, lasting};
use crate::error::Error;
use crate::when;

/// What such a file has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Experiment {
    /// The start, or the earliest and the latest.
    #[serde(default)]
    start: Start,
    /// The length of the lease, as `--for` has it.
    #[serde(rename = "for")]
    duration: String,
    /// Which plan is the best: `earliest`, `cheapest`, `best`.
    #[serde(default)]
    prefer: Option<String>,
    /// Whether the sites are different ones.
    #[serde(default = "yes")]
    apart: bool,
    /// Whom to ask for what names no broker of its own.
    #[serde(default)]
    broker: Option<Name>,
    /// How long each of several brokers holds what it is asked for.
    #[serde(default)]
    hold: Option<Span>,
    /// How many attempts there are at several brokers.
    #[serde(default)]
    tries: Option<u32>,
    site: BTreeMap<String, Site>,
    #[serde(default)]
    link: Vec<Link>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a start, or a list of the earliest and the latest")]
enum Start {
    At(String),
    Between([String; 2]),
}

impl Default for Start {
    fn default() -> Self {
        Self::At("now".to_owned())
    }
}

#[derive(Debug, Deserialize)]
struct Site {
    #[serde(rename = "where", default)]
    condition: Option<String>,
    #[serde(default)]
    broker: Option<Name>,
    #[serde(flatten)]
    units: BTreeMap<String, Units>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a number of units, or a range such as \"2..4\"")]
enum Units {
    Exactly(u32),
    Range(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Link {
    ends: [String; 2],
    bandwidth: Units,
    #[serde(default)]
    broker: Option<Name>,
    #[serde(default)]
    resource: Option<Name>,
    #[serde(default)]
    hops: Option<u8>,
    #[serde(default)]
    latency: Option<Span>,
    #[serde(rename = "where", default)]
    condition: Option<String>,
}

/// What of a request such a file says.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) demand: String,
    pub(super) duration: Lasting,
    pub(super) start: Moment,
    pub(super) latest: Option<Moment>,
    pub(super) apart: bool,
    pub(super) links: Vec<LinkRequest>,
    /// For the broker's mapper.
    pub(super) properties: Properties,
    /// The brokers of its items and links, if they have several.
    pub(super) brokers: Vec<Name>,
    pub(super) hold: Option<Span>,
    pub(super) tries: Option<u32>,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Wanted, Error> {
    let wrong = |why: String| Error::Wrong(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let read: Experiment =
        toml::from_str(&text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
    read.wanted().map_err(wrong)
}

impl Experiment {
    fn wanted(self) -> Result<Wanted, String> {
        let moment = |text: &str| when::read(text).map_err(|why| format!("start: {why}"));
        let (start, latest) = match &self.start {
            Start::At(at) => (moment(at)?, None),
            Start::Between([first, last]) => (moment(first)?, Some(moment(last)?)),
        };
        let mut places = BTreeMap::new();
        let (mut demand, mut next) = (Vec::new(), 0_u16);
        for (name, site) in &self.site {
            places.insert(name.as_str(), next);
            let items = site.items().map_err(|why| format!("site.{name}: {why}"))?;
            next = next.saturating_add(u16::try_from(items.len()).unwrap_or(u16::MAX));
            let items_text = items.join(", ");
            demand.push(if items.len() > 1 { format!("({items_text})") } else { items_text });
        }
        let single = self.site.values().all(|site| site.units.len() == 1);
        if self.apart && !single {
            return Err(
                "sites with several types may be one site: write `apart = false`".to_owned()
            );
        }
        let links = self.link.iter().map(|link| link.wanted(&places)).collect::<Result<_, _>>()?;
        let brokers = self.brokers()?;
        let (hold, tries) = (self.hold, self.tries);
        if brokers.is_empty() && (hold.is_some() || tries.is_some()) {
            return Err("`hold` and `tries` are for several brokers: name them".to_owned());
        }
        let prefer = self.prefer.map(|prefer| (Name::literal("prefer"), prefer));
        let properties = Properties::try_from(prefer.into_iter().collect::<BTreeMap<_, _>>());
        Ok(Wanted {
            demand: demand.join(", "),
            duration: lasting(&self.duration).map_err(|why| format!("for: {why}"))?,
            start,
            latest,
            apart: self.apart,
            links,
            properties: properties.map_err(|error| format!("prefer: {error}"))?,
            brokers,
            hold,
            tries,
        })
    }

    /// The broker of each item and then of each link; none if no broker is named.
    fn brokers(&self) -> Result<Vec<Name>, String> {
        let sites = self.site.iter().flat_map(|(name, site)| {
            let item = (format!("site.{name}"), &site.broker);
            std::iter::repeat_n(item, site.units.len())
        });
        let links = self.link.iter();
        let links = links.map(|link| (format!("link {}", link.ends.join("--")), &link.broker));
        let named: Vec<(String, Option<&Name>)> = sites
            .chain(links)
            .map(|(what, broker)| (what, broker.as_ref().or(self.broker.as_ref())))
            .collect();
        if named.iter().all(|(_, broker)| broker.is_none()) {
            return Ok(Vec::new());
        }
        let broker = |(what, broker): (String, Option<&Name>)| {
            broker.cloned().ok_or_else(|| format!("{what}: name its broker, or one for all"))
        };
        named.into_iter().map(broker).collect()
    }
}

impl Site {
    /// Its items, as a demand has them.
    fn items(&self) -> Result<Vec<String>, String> {
        if self.units.is_empty() {
            return Err("say how many units of which type, such as `node = 2`".to_owned());
        }
        let condition = self.condition.as_ref().map(|expr| format!(" where '{expr}'"));
        let condition = condition.unwrap_or_default();
        let item = |(kind, units): (&String, &Units)| match units {
            Units::Exactly(units) => format!("{units} {kind}{condition}"),
            Units::Range(range) => format!("{range} {kind}{condition}"),
        };
        Ok(self.units.iter().map(item).collect())
    }
}

impl Link {
    fn wanted(&self, places: &BTreeMap<&str, u16>) -> Result<LinkRequest, String> {
        let [one, other] = &self.ends;
        let named = format!("link {one}--{other}");
        let place = |end: &String| {
            let known = || places.keys().copied().collect::<Vec<_>>().join(", ");
            places.get(end.as_str()).copied().ok_or_else(|| {
                format!("{named}: there is no site `{end}`; the sites are {}", known())
            })
        };
        let range = |text: &str| {
            let (least, most) = text.split_once("..")?;
            Some((least.parse().ok()?, most.parse().ok()?))
        };
        let (least, most) = match &self.bandwidth {
            Units::Exactly(units) => (*units, *units),
            Units::Range(text) => range(text)
                .ok_or_else(|| format!("{named}: `{text}` is no range such as 20..40"))?,
        };
        let bandwidth = |units| {
            NonZeroU32::new(units).ok_or_else(|| format!("{named}: bandwidth must be 1 or more"))
        };
        let condition = self.condition.as_deref().map(Expr::parse).transpose();
        Ok(LinkRequest {
            ends: [place(one)?, place(other)?],
            bandwidth: bandwidth(most)?,
            min_bandwidth: Some(bandwidth(least)?),
            resource: self.resource.clone().unwrap_or_else(|| Name::literal("bandwidth")),
            hops: self.hops,
            latency: self.latency,
            condition: condition.map_err(|error| format!("{named}: where: {error}"))?,
        })
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> Result<Wanted, String> {
        toml::from_str::<Experiment>(text).map_err(|error| error.to_string())?.wanted()
    }

    const TWO: &str =
        "for = '1h'\n[site.a]\nnode = 2\nwhere = 'cpus >= 8'\n[site.b]\nnode = '1..3'\n";

    #[test]
    fn sites_become_items_and_links_name_them() {
        let link = "[[link]]\nends = ['b', 'a']\nbandwidth = '20..40'\nhops = 2\nlatency = '5ms'\n";
        let wanted = wanted(&format!("start = ['now', 'now+2h']\n{TWO}{link}")).unwrap();
        assert_eq!(wanted.demand, "2 node where 'cpus >= 8', 1..3 node");
        let link = &wanted.links[0];
        assert_eq!((link.ends, link.bandwidth.get(), link.hops), ([1, 0], 40, Some(2)));
        assert_eq!(link.min_bandwidth.map(NonZeroU32::get), Some(20));
        assert!(wanted.apart && wanted.latest.is_some());
    }

    #[test]
    fn each_item_and_link_has_its_broker() {
        let head = "for = '1h'\nbroker = 'x'\ntries = 2\n[site.a]\nnode = 1\n[site.b]\nnode = 1\n";
        let tail = "broker = 'y'\n[[link]]\nends = ['a', 'b']\nbandwidth = 1\nbroker = 'z'\n";
        let wanted = wanted(&format!("{head}{tail}")).unwrap();
        let names: Vec<&str> = wanted.brokers.iter().map(Name::as_str).collect();
        assert_eq!((names, wanted.tries), (vec!["x", "y", "z"], Some(2)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (more, says) in [
            (
                "[[link]]\nends = ['a', 'c']\nbandwidth = 1\n",
                "link a--c: there is no site `c`; the sites are a, b",
            ),
            (
                "[[link]]\nends = ['a', 'b']\nbandwidth = 0\n",
                "link a--b: bandwidth must be 1 or more",
            ),
            ("[[link]]\nends = ['a', 'b']\nbandwidth = 1\nwhere = 'x >'\n", "link a--b: where: "),
            ("[[link]]\nends = ['a', 'b']\nspeed = 1\n", "unknown field `speed`"),
            ("[site.c]\nnode = 1\nbroker = 'x'\n", "site.a: name its broker"),
            ("[site.c]\n", "site.c: say how many units of which type"),
            ("[site.c]\nnode = 1\ndisk = 1\n", "write `apart = false`"),
        ] {
            let wrong = wanted(&format!("{TWO}{more}")).unwrap_err();
            assert!(wrong.contains(says), "{wrong} does not say {says}");
        }
    }
}
