//! Labels of points that do not cover each other.

use std::error::Error;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const FONT: (&str, i32) = ("sans-serif", 13);

type Point = (i32, i32);

/// How far a label is from its point, at first and at most; from the second on a line connects them.
const DISTANCES: [i32; 6] = [8, 24, 40, 60, 90, 130];

/// The directions in which it may be, the best first.
const DIRECTIONS: [Point; 8] =
    [(1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1), (-1, 0), (0, -1), (0, 1)];

/// Where labels of a chart are.
pub(super) struct Labels {
    frame: (Range<i32>, Range<i32>),
    taken: Vec<Area>,
}

/// Pixels from one corner to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

/// Where a label is: to the right of its point, the left, or neither, and how far away.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    area: Area,
    direction: i32,
    distance: i32,
}

impl Area {
    fn around((x, y): Point, by: i32) -> Self {
        Self { left: x - by, top: y - by, right: x + by, bottom: y + by }
    }

    /// An area in a direction from a point, so far away.
    fn beside(point: Point, size: Point, direction: Point, distance: i32) -> Self {
        let from = |at: i32, size: i32, direction: i32| match direction {
            0 => at - size / 2,
            1 => at + distance,
            _ => at - distance - size,
        };
        let (left, top) = (from(point.0, size.0, direction.0), from(point.1, size.1, direction.1));
        Self { left, top, right: left + size.0, bottom: top + size.1 }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn is_within(&self, (xs, ys): &(Range<i32>, Range<i32>)) -> bool {
        xs.start <= self.left
            && self.right <= xs.end
            && ys.start <= self.top
            && self.bottom <= ys.end
    }

    /// What of it is closest to a point.
    fn nearest(&self, (x, y): Point) -> Point {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }
}

impl Labels {
    pub(super) fn within(frame: (Range<i32>, Range<i32>)) -> Self {
        Self { frame, taken: Vec::new() }
    }

    pub(super) fn avoid_point(&mut self, point: Point) {
        self.taken.push(Area::around(point, 6));
    }

    /// No label covers what stands in the upper right corner.
    pub(super) fn avoid_corner(&mut self, (width, height): Point) {
        let (right, top) = (self.frame.0.end, self.frame.1.start);
        self.taken.push(Area { left: right - width, top, right, bottom: top + height });
    }

    /// No label covers a line through these points.
    pub(super) fn avoid_line(&mut self, points: &[Point]) {
        for pair in points.windows(2) {
            let &[(x, y), (to_x, to_y)] = pair else { continue };
            let steps = ((to_x - x).abs().max((to_y - y).abs()) / 4).max(1);
            let on_it =
                (0..=steps).map(|k| (x + (to_x - x) * k / steps, y + (to_y - y) * k / steps));
            self.taken.extend(on_it.map(|point| Area::around(point, 2)));
        }
    }

    /// Draws the label of a point where nothing is yet; none where nothing is free.
    pub(super) fn draw(
        &mut self,
        page: &DrawingArea<SVGBackend<'_>, Shift>,
        point: Point,
        text: &str,
        colour: RGBColor,
    ) -> Result<(), Box<dyn Error>> {
        let style = FONT.into_text_style(page).color(&colour);
        let (width, height) = page.estimate_text_size(text, &style)?;
        let size = (i32::try_from(width)?, i32::try_from(height)?);
        let Some(Place { area, direction, distance }) = self.place(point, size) else {
            return Ok(());
        };
        self.taken.push(area);
        if distance > DISTANCES[0] {
            page.draw(&PathElement::new([point, area.nearest(point)], colour.mix(0.5)))?;
        }
        // The text may be shorter than its area: it begins or ends on the side of its point.
        let (side, x) = match direction {
            1 => (HPos::Left, area.left),
            0 => (HPos::Center, area.left + size.0 / 2),
            _ => (HPos::Right, area.right),
        };
        page.draw_text(text, &style.pos(Pos::new(side, VPos::Top)), (x, area.top))?;
        Ok(())
    }

    fn place(&self, point: Point, size: Point) -> Option<Place> {
        let beside = |distance| {
            DIRECTIONS.map(|direction| Place {
                area: Area::beside(point, size, direction, distance),
                direction: direction.0,
                distance,
            })
        };
        DISTANCES.into_iter().flat_map(beside).find(|Place { area, .. }| {
            area.is_within(&self.frame) && !self.taken.iter().any(|taken| taken.overlaps(area))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cover_neither_each_other_nor_points_nor_lines() {
        let mut labels = Labels::within((0..400, 0..300));
        let points = [(200, 150), (205, 152), (203, 146), (390, 150), (200, 150)];
        points.iter().for_each(|&point| labels.avoid_point(point));
        labels.avoid_line(&[(200, 150), (390, 150)]);
        for point in points {
            let Place { area, .. } = labels.place(point, (60, 12)).unwrap();
            assert!(area.is_within(&(0..400, 0..300)), "{area:?}");
            assert!(!labels.taken.iter().any(|taken| taken.overlaps(&area)), "{area:?}");
            labels.taken.push(area);
        }
        assert_eq!(labels.place((200, 150), (500, 12)), None, "wider than all there is");
    }
}
