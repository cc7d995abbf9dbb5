//! Offers over time, as a chart of text.

use std::iter::repeat_n;

use chrono::{DateTime, SecondsFormat, Utc};
use tenure_node::api::{OfferPartView, OfferView};

use crate::text::printable;

/// The width where the output is no terminal.
const WIDTH: u16 = 100;

/// The fewest columns of the time.
const LEAST: usize = 10;

/// The bar of a part.
const BAR: char = '█';

/// When each part of each offer is in use: a line for each, whose columns are equal times from the first start
/// to the last end, no wider than the terminal. `None` if an instant cannot be read or the terminal is too narrow.
pub(super) fn chart(offers: &[OfferView], width: Option<u16>) -> Option<String> {
    let digits = offers.iter().map(|offer| offer.offer.to_string().len()).max()?;
    let rows = offers.iter().flat_map(|offer| rows_of(offer, digits));
    let rows: Vec<Row> = rows.collect::<Option<_>>()?;
    let first = rows.iter().map(|row| row.start).min()?;
    let last = rows.iter().map(|row| row.end).max()?;
    let width = usize::from(width.unwrap_or(WIDTH));
    let label = rows.iter().map(|row| row.label.chars().count()).max()?;
    let label = label.min(width.checked_sub(LEAST + 2)?);
    let axis = Axis { first, last, columns: width - label - 2 };
    let head = format!("{}  {}", " ".repeat(label), axis.head());
    let lines = rows.iter().map(|row| {
        let name: String = row.label.chars().take(label).collect();
        format!("{name:label$}  {}", axis.bar(row))
    });
    let lines: Vec<String> = [head].into_iter().chain(lines).collect();
    Some(lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n"))
}

/// A part of an offer.
struct Row {
    label: String,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
}

/// The parts of an offer, the first with its number.
fn rows_of(offer: &OfferView, digits: usize) -> impl Iterator<Item = Option<Row>> {
    offer.parts.iter().enumerate().map(move |(nth, part)| {
        let number = if nth == 0 { offer.offer.to_string() } else { String::new() };
        let OfferPartView { units, resource, site, start, end } = part;
        let label = format!("{number:digits$}  {units} {resource}, {site}");
        let (start, end) = (instant(start)?, instant(end)?);
        Some(Row { label: printable(&label).into_owned(), start, end })
    })
}

fn instant(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// The time between two instants in so many columns.
struct Axis {
    first: DateTime<Utc>,
    last: DateTime<Utc>,
    columns: usize,
}

impl Axis {
    /// The first instant at its column and the last at its own, as far as there is room.
    fn head(&self) -> String {
        let text = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
        let (first, last) = (text(self.first), text(self.last));
        match self.columns.checked_sub(first.len() + last.len()) {
            Some(between) if between > 0 => format!("{first}{}{last}", " ".repeat(between)),
            Some(_) | None if first.len() <= self.columns => first,
            Some(_) | None => String::new(),
        }
    }

    /// From the column in which a part starts to that in which it ends.
    fn bar(&self, row: &Row) -> String {
        let (start, end) = (self.column(row.start), self.column(row.end));
        let from = (start.floor() as usize).min(self.columns.saturating_sub(1));
        let to = (end.ceil() as usize).clamp(from + 1, self.columns);
        repeat_n(' ', from).chain(repeat_n(BAR, to - from)).collect()
    }

    fn column(&self, at: DateTime<Utc>) -> f64 {
        let millis = |from: DateTime<Utc>| (at - from).num_milliseconds() as f64;
        let all = (self.last - self.first).num_milliseconds().max(1) as f64;
        millis(self.first) * self.columns as f64 / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(units: u32, resource: &str, site: &str, from: &str, until: &str) -> OfferPartView {
        let at = |time: &str| format!("2026-11-25T{time}.000Z");
        OfferPartView {
            units,
            resource: resource.to_owned(),
            site: site.to_owned(),
            start: at(from),
            end: at(until),
        }
    }

    fn offers() -> Vec<OfferView> {
        let offer = |offer, from: &str, until: &str| OfferView {
            offer,
            differs: Vec::new(),
            parts: vec![
                part(2, "node", "nice", from, until),
                part(60, "lyon-nice", "backbone", from, until),
            ],
            cost: None,
        };
        vec![
            offer(1, "18:00:00", "19:00:00"),
            offer(2, "18:30:00", "19:30:00"),
            offer(10, "20:00:00", "21:00:00"),
        ]
    }

    #[test]
    fn each_part_is_a_bar_from_its_start_to_its_end() {
        let expected = "
                            2026-11-25T18:00:00Z                      2026-11-25T21:00:00Z
1   2 node, nice            █████████████████████
    60 lyon-nice, backbone  █████████████████████
2   2 node, nice                      █████████████████████
    60 lyon-nice, backbone            █████████████████████
10  2 node, nice                                                     █████████████████████
    60 lyon-nice, backbone                                           █████████████████████";
        let chart = chart(&offers(), Some(90)).unwrap();
        assert_eq!(format!("\n{chart}"), expected, "{chart}");
    }

    #[test]
    fn a_chart_is_no_wider_than_the_terminal_and_shows_each_part() {
        for width in 12..=200 {
            let chart = chart(&offers(), Some(width)).unwrap();
            let lines: Vec<_> = chart.lines().collect();
            assert_eq!(lines.len(), 7);
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{chart}");
            assert!(lines[1..].iter().all(|line| line.contains(BAR)), "{chart}");
        }
        assert_eq!(chart(&offers(), Some(11)), None);
        assert_eq!(chart(&offers(), None), chart(&offers(), Some(WIDTH)));
    }

    #[test]
    fn an_instant_is_a_bar_of_one_column_and_what_is_no_instant_no_chart() {
        let mut offers = offers();
        offers.truncate(1);
        offers[0].parts.iter_mut().for_each(|part| part.end.clone_from(&part.start));
        let one = chart(&offers, Some(60)).unwrap();
        assert_eq!(one.matches(BAR).count(), 2, "{one}");
        offers[0].parts[0].start = "never".to_owned();
        assert_eq!(chart(&offers, Some(60)), None);
    }
}
