//! Bars over time: which lane was in which state, or in whose hands, and when.

use std::collections::BTreeSet;
use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use tenure_core::model::time::{Span, Time};

use super::PlotError;

/// A bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The lane that it is in.
    pub lane: String,
    /// What it stands for; bars of one kind have one colour.
    pub kind: String,
    /// Where it begins.
    pub begin: Time,
    /// Where it ends.
    pub end: Time,
}

const WIDTH: u32 = 1200;
const LANE: u32 = 22;
const FONT: &str = "sans-serif";
/// About how wide a letter is.
const LETTER: u32 = 7;
/// The most times that are written below the bars.
const TICKS: i64 = 8;

/// The colours of the kinds; with more kinds they repeat.
const COLORS: [RGBColor; 8] = [
    RGBColor(0, 90, 160),
    RGBColor(220, 120, 0),
    RGBColor(20, 130, 70),
    RGBColor(130, 60, 140),
    RGBColor(190, 40, 60),
    RGBColor(90, 170, 210),
    RGBColor(150, 150, 40),
    RGBColor(120, 120, 120),
];

/// How far times are apart that are written below the bars.
const STEPS: [Span; 17] = [
    Span::SECOND,
    Span::SECOND.times(5),
    Span::SECOND.times(15),
    Span::MINUTE,
    Span::MINUTE.times(5),
    Span::MINUTE.times(15),
    Span::MINUTE.times(30),
    Span::HOUR,
    Span::HOUR.times(2),
    Span::HOUR.times(6),
    Span::HOUR.times(12),
    Span::DAY,
    Span::DAY.times(2),
    Span::DAY.times(7),
    Span::DAY.times(30),
    Span::DAY.times(90),
    Span::DAY.times(365),
];

/// Draws a line of bars for each lane, the first at the top, and above them which colour is what.
///
/// # Errors
/// If it cannot be drawn.
pub fn gantt(title: &str, bars: &[Bar]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, bars).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(svg: &mut String, title: &str, bars: &[Bar]) -> Result<(), Box<dyn Error>> {
    let lanes: BTreeSet<(&str, u64, &str)> = bars.iter().map(|bar| in_order(&bar.lane)).collect();
    let lanes: Vec<&str> = lanes.into_iter().map(|(.., lane)| lane).collect();
    let kinds: BTreeSet<&str> = bars.iter().map(|bar| bar.kind.as_str()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let places = places(&kinds);
    let legend = places.last().map_or(0, |(_, line)| line + 1) * 20 + 8;
    let height = 40 + legend + LANE * u32::try_from(lanes.len().max(1))? + 50;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(title, (FONT, 18))?;
    let (above, below) = area.split_vertically(legend);
    for (nth, (kind, (x, line))) in kinds.iter().zip(&places).enumerate() {
        let (x, y) = (i32::try_from(*x)?, i32::try_from(line * 20)?);
        let square = [(x, y + 3), (x + 12, y + 15)];
        above.draw(&Rectangle::new(square, COLORS[nth % COLORS.len()].filled()))?;
        above.draw(&Text::new((*kind).to_owned(), (x + 18, y + 2), (FONT, 13)))?;
    }
    chart(&below, &lanes, &kinds, bars)?;
    area.present()?;
    Ok(())
}

/// Lanes by the number at their end: the tenth unit does not follow the first.
fn in_order(lane: &str) -> (&str, u64, &str) {
    let name = lane.trim_end_matches(|c: char| c.is_ascii_digit());
    (name, lane[name.len()..].parse().unwrap_or(0), lane)
}

/// Where each kind is explained: how far from the left, and in which line.
fn places(kinds: &[&str]) -> Vec<(u32, u32)> {
    let (mut x, mut line) = (12, 0);
    let place = |kind: &&str| {
        let width = 18 + LETTER * u32::try_from(kind.chars().count()).unwrap_or(WIDTH) + 24;
        if x > 12 && x + width > WIDTH {
            (x, line) = (12, line + 1);
        }
        let place = (x, line);
        x += width;
        place
    };
    kinds.iter().map(place).collect()
}

fn chart(
    area: &Area<'_>,
    lanes: &[&str],
    kinds: &[&str],
    bars: &[Bar],
) -> Result<(), Box<dyn Error>> {
    let first = bars.iter().map(|bar| bar.begin).min().unwrap_or(Time::ZERO);
    let last = bars.iter().map(|bar| bar.end).max().unwrap_or(Time::ZERO);
    let last = last.max(first.plus(Span::SECOND));
    let letters = lanes.iter().map(|lane| lane.chars().count()).max().unwrap_or(0);
    let count = i32::try_from(lanes.len().max(1))?;
    let times = Axis(first, last);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(50)
        .x_label_area_size(30)
        .y_label_area_size((LETTER * u32::try_from(letters)? + 12).min(WIDTH / 3))
        .build_cartesian_2d(times, (0..count - 1).into_segmented())?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .x_label_formatter(&|seconds| label(*seconds, last.since(first)))
        .y_labels(lanes.len())
        .y_label_formatter(&|place| name_of(lanes, place))
        .draw()?;
    for bar in bars {
        let lane = lanes.iter().rev().position(|lane| *lane == bar.lane).unwrap_or(0);
        let kind = kinds.iter().position(|kind| *kind == bar.kind).unwrap_or(0);
        let lane = i32::try_from(lane)?;
        let corners = [
            (bar.begin.as_secs_f64(), SegmentValue::Exact(lane)),
            (bar.end.as_secs_f64(), SegmentValue::Exact(lane + 1)),
        ];
        let mut drawn = Rectangle::new(corners, COLORS[kind % COLORS.len()].mix(0.85).filled());
        drawn.set_margin(3, 3, 0, 0);
        chart.draw_series([drawn])?;
    }
    Ok(())
}

/// The time from one instant to another, in seconds.
struct Axis(Time, Time);

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (left, right): (i32, i32)) -> i32 {
        let Range { start, end } = self.range();
        left + (f64::from(right - left) * (value - start) / (end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        ticks(self.0, self.1)
    }

    fn range(&self) -> Range<f64> {
        self.0.as_secs_f64()..self.1.as_secs_f64()
    }
}

/// The lane at a place, counted from below.
fn name_of(lanes: &[&str], place: &SegmentValue<i32>) -> String {
    let (SegmentValue::CenterOf(place) | SegmentValue::Exact(place)) = place else {
        return String::new();
    };
    let place = usize::try_from(*place).ok();
    let name = place.and_then(|place| lanes.iter().rev().nth(place));
    name.map(ToString::to_string).unwrap_or_default()
}

/// Times of even distance between two others.
fn ticks(first: Time, last: Time) -> Vec<f64> {
    let length = last.since(first).as_micros();
    let step = STEPS.into_iter().find(|step| length / step.as_micros() <= TICKS);
    let step = step.unwrap_or(Span::from_micros(length / TICKS)).as_micros().max(1);
    let begin = first.as_micros().div_euclid(step) * step;
    let times = (0..=TICKS + 1).map(|n| Time::from_micros(begin.saturating_add(n * step)));
    times.filter(|at| (first..=last).contains(at)).map(Time::as_secs_f64).collect()
}

/// A time as briefly as its axis allows: a date with hours and minutes, or the time since the start.
fn label(seconds: f64, length: Span) -> String {
    let at = Time::from_secs(seconds.round() as i64);
    if at < Time::FIRST_DATE {
        return at.to_string();
    }
    let date = at.to_string().replace('T', " ");
    let part = if length < Span::MINUTE.times(TICKS) { 11..19 } else { 5..16 };
    date.get(part).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(lane: &str, kind: &str, begin: i64, end: i64) -> Bar {
        let at = |minutes: i64| Time::ZERO.plus(Span::MINUTE.times(minutes));
        Bar { lane: lane.to_owned(), kind: kind.to_owned(), begin: at(begin), end: at(end) }
    }

    #[test]
    fn each_bar_is_in_its_lane_and_has_the_colour_of_its_kind() {
        let bars = [
            bar("alpha/u0", "a/work", 0, 60),
            bar("alpha/u10", "b/work", 20, 60),
            bar("alpha/u2", "a/work", 0, 30),
        ];
        let svg = gantt("units", &bars).unwrap();
        let place = |text: &str| svg.find(text).unwrap_or_else(|| panic!("no {text}: {svg}"));
        // From below: the labels of an axis are written from its origin on.
        assert!(place("alpha/u10") < place("alpha/u2") && place("alpha/u2") < place("alpha/u0"));
        for text in ["units", "a/work", "b/work", "30m", "1h"] {
            place(text);
        }
        let drawn = |color: &str| {
            svg.lines().filter(|line| line.contains("<rect") && line.contains(color)).count()
        };
        // With the square of the legend.
        assert_eq!((drawn("#005AA0"), drawn("#DC7800")), (3, 2), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(gantt("units", &[]).unwrap().contains("units"));
    }

    #[test]
    fn times_are_even_and_told_apart() {
        let at = |hours| Time::ZERO.plus(Span::HOUR.times(hours));
        let hours = |first, last| ticks(at(first), at(last)).into_iter().map(|s| s / 3600.0);
        assert_eq!(hours(1, 9).collect::<Vec<_>>(), (1..=9).map(f64::from).collect::<Vec<_>>());
        assert_eq!(hours(1, 30).collect::<Vec<_>>(), [6.0, 12.0, 18.0, 24.0, 30.0]);
        let date = 1_790_000_000.0;
        assert_eq!(label(date, Span::DAY), "09-21 14:13");
        assert_eq!(label(date, Span::MINUTE), "14:13:20");
        assert_eq!(label(5400.0, Span::DAY), "1h30m");
    }
}
