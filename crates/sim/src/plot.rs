//! Plots: what a run needed and held, drawn as SVG.

mod experiments;
mod gantt;
mod labels;
mod lines;
mod pareto;

use std::error::Error;

use plotters::prelude::*;
use tenure_core::model::time::Span;
use thiserror::Error;

use crate::report::Series;

pub use experiments::{Setting, experiments};
pub use gantt::{Bar, gantt};
pub use lines::{Line, lines};
pub use pareto::{Outcome, efficient, pareto};

/// Why a plot could not be drawn.
#[derive(Debug, Error)]
#[error("the plot could not be drawn: {0}")]
pub struct PlotError(String);

const WIDTH: u32 = 960;
const HEIGHT_EACH: u32 = 300;
const NEEDED: RGBColor = RGBColor(120, 120, 120);
const HELD: RGBColor = RGBColor(0, 90, 160);

/// Draws need and holding of each service manager over time, one below the other.
pub fn demand_and_holding(title: &str, step: Span, series: &[Series]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, step, series).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    step: Span,
    series: &[Series],
) -> Result<(), Box<dyn Error>> {
    let count = u32::try_from(series.len().max(1))?;
    let size = (WIDTH, HEIGHT_EACH * count + 40);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(title, ("sans-serif", 18))?;
    for (panel, series) in area.split_evenly((series.len().max(1), 1)).iter().zip(series) {
        one(panel, step, series)?;
    }
    area.present()?;
    Ok(())
}

fn one<B: DrawingBackend>(
    panel: &DrawingArea<B, plotters::coord::Shift>,
    step: Span,
    series: &Series,
) -> Result<(), Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    let days = |k: usize| k as f64 * step.as_secs_f64() / Span::DAY.as_secs_f64();
    let end = days(series.demand.len().max(1));
    let needed = series.demand.iter().map(|&units| i64::from(units));
    let most = needed.chain(series.held.iter().copied()).max().unwrap_or(1).max(1);
    let mut chart = ChartBuilder::on(panel)
        .margin(12)
        .caption(&series.name, ("sans-serif", 15))
        .x_label_area_size(34)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..end, 0..most + most / 10 + 1)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("days")
        .y_desc("units")
        .x_label_formatter(&|day| format!("{day:.1}"))
        .draw()?;
    let needed = stairs(series.demand.iter().map(|&units| i64::from(units)), days);
    let held = stairs(series.held.iter().copied(), days);
    chart
        .draw_series(AreaSeries::new(needed, 0, NEEDED.mix(0.35)))?
        .label("needed")
        .legend(|(x, y)| Rectangle::new([(x, y - 4), (x + 18, y + 4)], NEEDED.mix(0.35).filled()));
    chart
        .draw_series(LineSeries::new(held, HELD.stroke_width(1)))?
        .label("held")
        .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], HELD.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

/// A value holds until the next one: two points for each change, none for what stays the same.
fn stairs(values: impl Iterator<Item = i64>, days: impl Fn(usize) -> f64) -> Vec<(f64, i64)> {
    let mut points: Vec<(f64, i64)> = Vec::new();
    let mut count = 0;
    for (k, value) in values.enumerate() {
        count = k + 1;
        match points.last() {
            Some(&(_, last)) if last == value => {}
            Some(&(_, last)) => points.extend([(days(k), last), (days(k), value)]),
            None => points.push((days(k), value)),
        }
    }
    if let Some(&(_, last)) = points.last() {
        points.push((days(count), last));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_until_the_next_one() {
        let points = stairs([2, 2, 5].into_iter(), |k| k as f64);
        assert_eq!(points, [(0.0, 2), (2.0, 2), (2.0, 5), (3.0, 5)]);
    }

    #[test]
    fn a_plot_names_what_it_shows() {
        let series = [Series { name: "guest".to_owned(), demand: vec![1, 2], held: vec![1, 3] }];
        let svg = demand_and_holding("term=1h", Span::HOUR, &series).unwrap();
        for word in ["<svg", "term=1h", "guest", "needed", "held", "days", "units"] {
            assert!(svg.contains(word), "no {word}");
        }
    }
}
