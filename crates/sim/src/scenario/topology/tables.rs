//! The files of a network: its edges, and what its sites have.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::Deserialize;
use tenure_core::model::name::Name;

use super::shape::EdgeKind;
use crate::scenario::rows::rows;

/// The units of each type at the site of each broker.
pub(super) type StockOf = BTreeMap<Name, BTreeMap<Name, NonZeroU32>>;

/// A row of the edges.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeRow {
    from: Name,
    to: Name,
    kind: EdgeKind,
}

/// A row of the stock.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StockRow {
    broker: Name,
    resource: Name,
    units: NonZeroU32,
}

/// The edges in a CSV text with the columns `from`, `to` and `kind`.
pub(super) fn edges(text: &str) -> Result<BTreeSet<(Name, Name, EdgeKind)>, String> {
    let mut edges = BTreeSet::new();
    for (line, row) in rows::<EdgeRow>(text)? {
        if row.from == row.to {
            return Err(format!("line {line}: `{}` is joined with itself", row.from));
        }
        let (from, to, kind) = (row.from, row.to, row.kind);
        if !edges.insert((from.clone(), to.clone(), kind)) {
            return Err(format!(
                "line {line}: such an edge from `{from}` to `{to}` is there already"
            ));
        }
    }
    Ok(edges)
}

/// The stock in a CSV text with the columns `broker`, `resource` and `units`.
pub(super) fn stock(text: &str) -> Result<StockOf, String> {
    let mut stock = StockOf::new();
    for (line, StockRow { broker, resource, units }) in rows(text)? {
        let of_broker = stock.entry(broker.clone()).or_default();
        if of_broker.insert(resource.clone(), units).is_some() {
            return Err(format!(
                "line {line}: the units of `{resource}` of `{broker}` are there already"
            ));
        }
    }
    Ok(stock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_stock_are_read_and_what_is_wrong_is_named_with_its_line() {
        let read = edges("from,to,kind\n# two labs\na, campus, share\na,b,forward\n").unwrap();
        assert_eq!(read.len(), 2);
        let stock_of = stock("broker,resource,units\na,node,4\na,phone,2\nb,node,1\n").unwrap();
        assert_eq!((stock_of.len(), stock_of[&Name::literal("a")].len()), (2, 2));
        for (text, says) in [
            (
                "from,to,kind\na,b,lend\n",
                "line 2: unknown variant `lend`, expected `share` or `forward`",
            ),
            (
                "from,to,kind\na,b,share\na,b,share\n",
                "line 3: such an edge from `a` to `b` is there already",
            ),
            ("from,to,kind\na,a,share\n", "line 2: `a` is joined with itself"),
            ("from,kind\na,share\n", "line 2: missing field `to`"),
        ] {
            let found = edges(text).unwrap_err();
            assert!(found.contains(says), "{found}");
        }
        for (text, says) in [
            ("broker,resource,units\na,node,0\n", "line 2: "),
            ("broker,resource,units\na,node,1\na,node,2\n", "line 3: the units of `node` of `a`"),
            ("broker,resource,units\nA,node,1\n", "line 2: "),
        ] {
            let found = stock(text).unwrap_err();
            assert!(found.contains(says), "{found}");
        }
    }
}
