//! The runs of a sweep by two figures that should both be small, and which of them no other beats.

use std::error::Error;
use std::ops::Range;

use plotters::prelude::*;

use super::PlotError;
use super::labels::Labels;

/// A run by two figures, of both of which less is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What sets it apart from the others.
    pub label: String,
    /// The first figure, which is not negative.
    pub x: f64,
    /// The second.
    pub y: f64,
}

impl Outcome {
    /// Whether it is as good as another by both figures, and better by one.
    fn dominates(&self, other: &Self) -> bool {
        self.x <= other.x && self.y <= other.y && (self.x < other.x || self.y < other.y)
    }
}

/// The Pareto-efficient outcomes, those that no other dominates: by rising `x`, equal ones in their order.
pub fn efficient(outcomes: &[Outcome]) -> Vec<&Outcome> {
    let best = |one: &&Outcome| !outcomes.iter().any(|other| other.dominates(one));
    let mut efficient: Vec<&Outcome> = outcomes.iter().filter(best).collect();
    efficient.sort_by(|a, b| a.x.total_cmp(&b.x));
    efficient
}

const SIZE: (u32, u32) = (960, 540);
const FONT: &str = "sans-serif";
const EFFICIENT: RGBColor = RGBColor(0, 90, 160);
const OTHER: RGBColor = RGBColor(120, 120, 120);

/// Draws a labelled point for each outcome, and a line through the efficient ones. `axes` says what `x` and `y` are;
/// `x` is logarithmic, from 0.
///
/// # Errors
/// If it does not fit.
pub fn pareto(title: &str, axes: (&str, &str), outcomes: &[Outcome]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, axes, outcomes).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    axes: (&str, &str),
    outcomes: &[Outcome],
) -> Result<(), Box<dyn Error>> {
    let page = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    page.fill(&WHITE)?;
    // Beside the points there is room for labels, and above them for the legend.
    let right = along(outcomes.iter().map(|one| one.x).fold(1.0, f64::max));
    let xs = (-right / 25..right + right / 10).with_key_points(ticks(right));
    let (ys, digits) = heights(outcomes);
    let mut chart = ChartBuilder::on(&page.titled(title, (FONT, 18))?)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(xs, ys)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(axes.0)
        .y_desc(axes.1)
        .x_label_formatter(&|at| format!("{:.0}", 10_f64.powf(f64::from(*at) / DECADE) - 1.0))
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .draw()?;
    let front = efficient(outcomes);
    let line = front.iter().map(|one| (along(one.x), one.y));
    chart
        .draw_series(LineSeries::new(line, EFFICIENT.stroke_width(2)))?
        .label("efficient: no other run has less of one and no more of the other")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], EFFICIENT.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(TRANSPARENT)
        .draw()?;
    let at = |one: &Outcome| chart.backend_coord(&(along(one.x), one.y));
    let mut labels = Labels::within(chart.plotting_area().get_pixel_range());
    labels.avoid_corner((460, 30));
    labels.avoid_line(&front.iter().map(|one| at(one)).collect::<Vec<_>>());
    outcomes.iter().for_each(|one| labels.avoid_point(at(one)));
    // Those of the efficient ones are the closest to their points.
    let is_efficient = |one: &Outcome| front.iter().any(|best| std::ptr::eq(*best, one));
    let (best, others) = outcomes.iter().partition::<Vec<_>, _>(|one| is_efficient(one));
    for (of_these, colour) in [(best, EFFICIENT), (others, OTHER)] {
        for one in of_these {
            page.draw(&Circle::new(at(one), 4, colour.filled()))?;
            labels.draw(&page, at(one), &one.label, colour)?;
        }
    }
    page.present()?;
    Ok(())
}

/// A factor of ten on the logarithmic axis. It is one of whole numbers, since plotters formats only those with places
/// of one's own.
const DECADE: f64 = 100_000.0;

/// How far along the logarithmic axis, which has a place for 0.
fn along(x: f64) -> i32 {
    ((1.0 + x).log10() * DECADE).round() as i32
}

/// What the other axis shows, with how many digits behind the point.
fn heights(outcomes: &[Outcome]) -> (Range<f64>, usize) {
    let ys = || outcomes.iter().map(|one| one.y);
    let (least, most) = (ys().fold(f64::MAX, f64::min), ys().fold(0.0, f64::max));
    let spread = if least < most { most - least } else { 1.0 };
    let range = least.min(most) - 0.15 * spread..most + 0.3 * spread;
    (range, if spread < 10.0 { 1 } else { 0 })
}

/// The places of 0, 1, 10, 100 and so on.
fn ticks(right: i32) -> Vec<i32> {
    let powers = (0..).map(|power| along(10_f64.powi(power)));
    [0].into_iter().chain(powers.take_while(|at| *at <= right)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outcome(label: &str, x: f64, y: f64) -> Outcome {
        Outcome { label: label.to_owned(), x, y }
    }

    fn labels<'a>(outcomes: &[&'a Outcome]) -> Vec<&'a str> {
        outcomes.iter().map(|one| one.label.as_str()).collect()
    }

    #[test]
    fn what_another_beats_is_not_efficient() {
        let outcomes = [
            outcome("at once", 38_063.0, 836.0),
            outcome("never", 0.0, 377.0),
            outcome("bounded", 13.0, 360.0),
            outcome("the same", 13.0, 360.0),
            outcome("as often, for longer", 13.0, 361.0),
        ];
        assert_eq!(labels(&efficient(&outcomes)), ["never", "bounded", "the same"]);
        assert!(efficient(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn each_is_efficient_or_beaten_by_one_that_is(
            places in prop::collection::vec((0..12_u8, 0..12_u8), 1..40)
        ) {
            let outcomes: Vec<_> =
                places.iter().map(|&(x, y)| outcome("", x.into(), y.into())).collect();
            let front = efficient(&outcomes);
            prop_assert!(front.is_sorted_by(|a, b| a.x <= b.x && b.y <= a.y));
            for one in &outcomes {
                let beaten = front.iter().any(|best| best.dominates(one));
                let on_it = front.iter().any(|best| std::ptr::eq(*best, one));
                prop_assert!(beaten != on_it, "{one:?}");
            }
        }
    }

    #[test]
    fn each_run_has_a_point_and_its_label() {
        let places = [(0.0, 377.0), (13.0, 360.0), (15.0, 362.0), (38_063.0, 836.0)];
        let outcomes: Vec<_> =
            places.iter().map(|&(x, y)| outcome(&format!("run of {x}"), x, y)).collect();
        let svg = pareto("a study", ("moves", "hours"), &outcomes).unwrap();
        assert_eq!(svg.matches("<circle").count(), outcomes.len());
        for word in ["<svg", "a study", "moves", "hours", "efficient", "10000"] {
            assert!(svg.contains(word), "no {word}");
        }
        for one in &outcomes {
            assert!(svg.contains(&one.label), "no {}", one.label);
        }
        assert!(pareto("nothing", ("", ""), &[]).is_ok());
    }
}
