//! The page of experiments: for each setting its success, where it took place, and how long planning took.

use std::collections::BTreeMap;
use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::PlotError;

/// What the page shows of a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// What sets it apart.
    pub title: String,
    /// By user, granted / requested up to each load in percent.
    pub success: BTreeMap<String, Vec<(u32, f64)>>,
    /// By site, the part of its units that is granted up to each of the same loads.
    pub utilization: BTreeMap<String, Vec<(u32, f64)>>,
    /// By type of request, for each load the mean and the longest time of planning, in milliseconds.
    pub planning: BTreeMap<u32, Vec<(u32, f64, f64)>>,
}

const WIDTH: u32 = 1200;
const HEIGHT_EACH: u32 = 260;
const CAPTION: u32 = 26;
const FONT: &str = "sans-serif";

/// Of what stands beside each other: users, types of requests.
const COLORS: [RGBColor; 4] =
    [RGBColor(0, 90, 160), RGBColor(200, 80, 0), RGBColor(20, 130, 70), RGBColor(130, 60, 140)];

/// Draws a row of three panels for each setting, one below the other.
///
/// # Errors
/// If there is nothing to draw, or it does not fit.
pub fn experiments(title: &str, settings: &[Setting]) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw(&mut svg, title, settings).map_err(|error| PlotError(error.to_string()))?;
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(svg: &mut String, title: &str, settings: &[Setting]) -> Result<(), Box<dyn Error>> {
    let count = u32::try_from(settings.len().max(1))?;
    let size = (WIDTH, (HEIGHT_EACH + CAPTION) * count + 40);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled(title, (FONT, 20))?;
    for (row, setting) in area.split_evenly((settings.len().max(1), 1)).iter().zip(settings) {
        let row = row.titled(&setting.title, (FONT, 15))?;
        if let [left, middle, right] = row.split_evenly((1, 3)).as_slice() {
            success(left, setting)?;
            utilization(middle, setting)?;
            planning(right, setting)?;
        }
    }
    area.present()?;
    Ok(())
}

fn success(area: &Area<'_>, setting: &Setting) -> Result<(), Box<dyn Error>> {
    let loads = setting.success.values().flatten().map(|(load, _)| *load);
    let last = loads.max().unwrap_or(100);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption("granted of what was asked for", (FONT, 13))
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0..last, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("load, %")
        .y_labels(6)
        .y_label_formatter(&|part| format!("{part:.1}"))
        .draw()?;
    for ((user, points), color) in setting.success.iter().zip(COLORS.iter().cycle()) {
        let (stroke, color) = (color.stroke_width(2), *color);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), stroke))?
            .label(user)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

/// A bar for each site, made of what each further tenth of the load added: the first the darkest.
fn utilization(area: &Area<'_>, setting: &Setting) -> Result<(), Box<dyn Error>> {
    let sites: Vec<&String> = setting.utilization.keys().collect();
    let count = i32::try_from(sites.len().max(1))?;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption("used of each site, darker the earlier asked for", (FONT, 13))
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d((0..count - 1).into_segmented(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(sites.len())
        .x_label_formatter(&|place| name_of(&sites, place))
        .y_labels(6)
        .y_label_formatter(&|part| format!("{part:.1}"))
        .draw()?;
    for (place, loads) in (0..).zip(setting.utilization.values()) {
        let mut before = 0.0;
        for (number, &(_, part)) in loads.iter().enumerate() {
            let shade = 1.0 - 0.85 * number as f64 / loads.len() as f64;
            let corners =
                [(SegmentValue::Exact(place), before), (SegmentValue::Exact(place + 1), part)];
            let mut bar = Rectangle::new(corners, COLORS[0].mix(shade).filled());
            bar.set_margin(0, 0, 3, 3);
            chart.draw_series([bar])?;
            before = part;
        }
    }
    Ok(())
}

fn name_of(sites: &[&String], place: &SegmentValue<i32>) -> String {
    let (SegmentValue::Exact(place) | SegmentValue::CenterOf(place)) = place else {
        return String::new();
    };
    let site = usize::try_from(*place).ok().and_then(|place| sites.get(place));
    site.map_or_else(String::new, |site| (*site).clone())
}

/// A line for each type, the longest times as dots.
fn planning(area: &Area<'_>, setting: &Setting) -> Result<(), Box<dyn Error>> {
    let times = || setting.planning.values().flatten();
    let least = times().map(|(_, avg, _)| *avg).fold(f64::MAX, f64::min).clamp(0.001, 1.0);
    let most = times().map(|(.., max)| *max).fold(1.0, f64::max);
    let last = times().map(|(load, ..)| *load).max().unwrap_or(100);
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_right(18)
        .caption("planning a request, ms: mean (line), longest (dot), by type", (FONT, 13))
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0..last, (least * 0.8..most * 12.0).log_scale())?;
    chart.configure_mesh().light_line_style(TRANSPARENT).x_desc("load, %").draw()?;
    for ((kind, points), color) in setting.planning.iter().zip(COLORS.iter().cycle()) {
        let color = *color;
        let mean = points.iter().map(|(load, avg, _)| (*load, *avg));
        chart
            .draw_series(LineSeries::new(mean, color.stroke_width(2)))?
            .label(format!("type {kind}"))
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color));
        let longest = points.iter().map(|(load, _, max)| (*load, *max));
        chart.draw_series(longest.map(|point| Circle::new(point, 2, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_of_panels_for_each_setting() {
        let setting = |title: &str| Setting {
            title: title.to_owned(),
            success: BTreeMap::from([("ann".to_owned(), vec![(10, 1.0), (20, 0.9)])]),
            utilization: ["north", "south"]
                .map(|site| (site.to_owned(), vec![(10, 0.1), (20, 0.15)]))
                .into(),
            planning: BTreeMap::from([(3, vec![(10, 0.5, 1.0), (20, 0.4, 2.0)])]),
        };
        let page = experiments("a study", &[setting("first"), setting("second")]).unwrap();
        for word in ["<svg", "a study", "first", "second", "ann", "north", "type 3"] {
            assert!(page.contains(word), "no {word}");
        }
        assert!(experiments("nothing", &[Setting::default()]).is_ok());
    }
}
