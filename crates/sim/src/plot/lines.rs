//! A figure of the runs of a sweep against one swept key, with a line for each combination of the others.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::PlotError;

/// A line: a figure at some of the places along the axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// What sets it apart from the others.
    pub label: String,
    /// The numbers of the places, from 0, with the figure there, which is not negative.
    pub points: Vec<(usize, f64)>,
}

const SIZE: (u32, u32) = (960, 480);
/// How wide the legend is.
const LEGEND: u32 = 230;
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 80, 0),
    RGBColor(20, 130, 70),
    RGBColor(130, 60, 140),
    RGBColor(120, 120, 120),
    RGBColor(170, 20, 60),
];

/// How far two places are from each other on the axis, which plotters has whole numbers for.
const STEP: i32 = 100;

/// Draws the lines. `axes` says what `x` and `y` are, and `places` what stands at each place along `x`, in order.
///
/// # Errors
/// If it does not fit.
pub fn lines(
    title: &str,
    axes: (&str, &str),
    places: &[String],
    lines: &[Line],
) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, (axes, places), lines).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    ((across, up), places): ((&str, &str), &[String]),
    lines: &[Line],
) -> Result<(), Box<dyn Error>> {
    let page = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    page.fill(&WHITE)?;
    let page = page.titled(title, (FONT, 18))?;
    let has_legend = lines.iter().any(|line| !line.label.is_empty());
    let legend = if has_legend { LEGEND } else { 0 };
    let (left, right) = page.split_horizontally(SIZE.0 - legend);
    let last = i32::try_from(places.len().max(1))? - 1;
    let xs = -STEP / 2..last * STEP + STEP / 2;
    let ticks: Vec<i32> = (0..=last).map(|place| place * STEP).collect();
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).fold(0.0, f64::max);
    let most = if highest > 0.0 { highest * 1.1 } else { 1.0 };
    let digits = digits(most);
    let mut chart = ChartBuilder::on(&left)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(76)
        .build_cartesian_2d(xs.with_key_points(ticks), 0.0..most)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(across)
        .y_desc(up)
        .x_label_formatter(&|at| name_of(places, *at))
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .draw()?;
    for (line, color) in lines.iter().zip(COLORS.iter().cycle()) {
        let points: Vec<(i32, f64)> = line
            .points
            .iter()
            .map(|&(place, y)| Ok((i32::try_from(place)? * STEP, y)))
            .collect::<Result<_, Box<dyn Error>>>()?;
        chart.draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?;
        let marks = points.into_iter().map(|at| Circle::new(at, 4, color.filled()));
        chart.draw_series(marks)?;
    }
    if has_legend {
        draw_legend(&right, lines)?;
    }
    page.present()?;
    Ok(())
}

/// The labels of all lines, one below the other, beside the chart.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    lines: &[Line],
) -> Result<(), Box<dyn Error>> {
    for ((y, line), color) in (24..).step_by(22).zip(lines).zip(COLORS.iter().cycle()) {
        let style = (FONT, 13).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&PathElement::new([(0, y), (18, y)], color.stroke_width(2)))?;
        area.draw(&Circle::new((9, y), 4, color.filled()))?;
        area.draw_text(&line.label, &style, (26, y))?;
    }
    Ok(())
}

/// With how many digits behind the point an axis up to `most` is labelled.
fn digits(most: f64) -> usize {
    if most < 1.0 {
        3
    } else if most < 20.0 {
        1
    } else {
        0
    }
}

fn name_of(places: &[String], at: i32) -> String {
    let place = usize::try_from(at / STEP).ok().and_then(|place| places.get(place));
    place.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_points_and_a_label() {
        let line = |label: &str, points: &[(usize, f64)]| Line {
            label: label.to_owned(),
            points: points.to_vec(),
        };
        let places = ["10", "20", "40"].map(str::to_owned);
        let both = [line("mesh", &[(0, 1.5), (2, 4.0)]), line("tree", &[(1, 2.0)])];
        let svg = lines("a study", ("brokers", "messages"), &places, &both).unwrap();
        for word in ["<svg", "a study", "brokers", "messages", "mesh", "tree", "10", "20", "40"] {
            assert!(svg.contains(word), "no {word}");
        }
        // One for each point, one for each label.
        assert_eq!(svg.matches("<circle").count(), 3 + 2);
    }

    #[test]
    fn one_line_without_a_label_has_no_legend() {
        let only = [Line { label: String::new(), points: vec![(0, 0.0)] }];
        let svg = lines("a study", ("x", "y"), &["1".to_owned()], &only).unwrap();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(lines("nothing", ("", ""), &[], &[]).is_ok());
    }

    #[test]
    fn small_figures_have_more_digits() {
        assert_eq!([0.6, 7.0, 33.0].map(digits), [3, 1, 0]);
    }
}
