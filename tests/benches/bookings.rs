//! How long a broker with many future bookings takes to answer a request.
//!
//! Each request is elastic, for units of two types over several sites at a common start, anywhere in a window
//! of a week. What is timed, in processor time, is all that the broker and its mapper `fcfs` do from the
//! message to the answer. One line of JSON for each number of bookings: the cost should hardly grow with it.
//! With `--plot`, they are drawn in `docs/figures/bookings.svg`.

#![allow(clippy::print_stdout, reason = "it prints what it has measured")]
#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

mod common;

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;
use std::{env, fs};

use common::{Random, Trader, processor_time};
use plotters::prelude::*;
use tenure_core::broker::machine::State;
use tenure_core::mapper::fcfs::Fcfs;
use tenure_core::model::identity::ActorId;
use tenure_core::model::name::Name;
use tenure_core::model::property::Properties;
use tenure_core::model::slice::RequestId;
use tenure_core::model::time::{Span, Time};
use tenure_core::wire::credentials::Credentials;
use tenure_core::wire::message::Message;
use tenure_core::wire::offer::Reply;
use tenure_core::wire::proviso::{History, Provisos};
use tenure_core::wire::request::{Item, Request};
use tenure_tests::root;

/// How many tickets are out when requests are timed.
const BOOKINGS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// How many requests are timed.
const TIMED: u64 = 2_000;
const SITES: u8 = 4;
/// A broker takes so many requests of one guest that several are needed.
const GUESTS: u8 = 40;
const YEAR: Span = Span::DAY.times(365);

struct LoadedBroker {
    seller: Trader,
    guests: Vec<(ActorId, Credentials)>,
    random: Random,
    requests: u64,
}

fn main() {
    let points = BOOKINGS.map(|bookings| {
        let point = timed(bookings);
        let Point { bookings, granted, p50, p99 } = point;
        println!(
            "{{\"bookings\":{bookings},\"granted\":{granted},\"of\":{TIMED},\"p50_us\":{p50},\"p99_us\":{p99}}}"
        );
        point
    });
    if env::args().any(|arg| arg == "--plot") {
        let svg = plot(&points).unwrap();
        fs::write(root().join("docs/figures/bookings.svg"), svg).unwrap();
    }
}

/// What requests take with so many bookings, in microseconds.
#[derive(Clone, Copy)]
struct Point {
    bookings: u64,
    granted: u64,
    p50: u32,
    p99: u32,
}

fn timed(bookings: u64) -> Point {
    let mut loaded = LoadedBroker::new(bookings);
    for _ in 0..bookings {
        let request = loaded.booking();
        loaded.ask(request);
    }
    let booked = loaded.granted();
    let mut times: Vec<Duration> = (0..TIMED)
        .map(|_| {
            let request = loaded.question();
            loaded.ask(request)
        })
        .collect();
    times.sort_unstable();
    let micros =
        |share: usize| u32::try_from(times[times.len() * share / 100 - 1].as_micros()).unwrap();
    let granted = loaded.granted() - booked;
    Point { bookings: booked, granted, p50: micros(50), p99: micros(99) }
}

/// Draws the times over the number of bookings.
fn plot(points: &[Point; 4]) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (720, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((800.0..1_300_000.0).log_scale(), 0.0..1100.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("bookings")
        .y_desc("a request, microseconds of processor time")
        .x_label_formatter(&|bookings| format!("{bookings:.0}"))
        .y_label_formatter(&|micros| format!("{micros:.0}"))
        .draw()?;
    let lines = [
        ("99 of 100 take no longer", RGBColor(184, 84, 26), points.map(|point| point.p99)),
        ("half take no longer", RGBColor(0, 90, 160), points.map(|point| point.p50)),
    ];
    for (label, colour, micros) in lines {
        let at = |(point, &micros): (&Point, &u32)| (point.bookings as f64, f64::from(micros));
        let line = points.iter().zip(&micros).map(at);
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)).point_size(4))?
            .label(label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let goal = [(800.0, 1000.0), (1_300_000.0, 1000.0)];
    chart
        .draw_series(DashedLineSeries::new(goal, 6, 4, BLACK.into()))?
        .label("one millisecond")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 18, y)], BLACK));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::MiddleLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(TRANSPARENT)
        .draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(svg)
}

impl LoadedBroker {
    /// A broker whose sites have so much that about two thirds of a year are booked.
    fn new(bookings: u64) -> Self {
        let mut loaded = Self {
            seller: Trader::new(SITES, GUESTS),
            guests: (0..GUESTS).map(Trader::guest).collect(),
            random: Random(7),
            requests: 0,
        };
        // A booking takes 4.5 units for 150 minutes on average, of one of two types.
        let unit_hours = bookings as f64 * 4.5 * 2.5;
        let units = unit_hours / 2.0 / (365.0 * 24.0) * 1.5 / f64::from(SITES);
        let units = NonZeroU32::new((units.ceil() as u32).max(8)).unwrap();
        for site in 0..SITES {
            for (number, resource) in [(1, "node"), (2, "gpu")] {
                loaded.seller.delegate(site, number, resource, units);
            }
        }
        loaded
    }

    /// Puts a request to the broker and has it decided; answers how long that took.
    fn ask(&mut self, mut request: Request) -> Duration {
        let guest = usize::try_from(self.requests % u64::from(GUESTS)).unwrap();
        self.requests += 1;
        let (origin, mut credentials) = (self.guests[guest].0, self.guests[guest].1.clone());
        request.id = RequestId { origin, number: self.requests };
        let begun = processor_time();
        self.seller.hand(origin, &mut credentials, Message::Request(request));
        self.seller.decide(&Fcfs::default());
        processor_time() - begun
    }

    fn granted(&self) -> u64 {
        let granted = self
            .seller
            .broker
            .requests()
            .filter(|(_, state)| matches!(state, State::Granted { .. }));
        granted.count() as u64
    }

    fn request(&self, items: Vec<Item>, earliest: Time, window: Span, duration: Span) -> Request {
        let latest = earliest.plus(window);
        Request {
            id: RequestId { origin: self.guests[0].0, number: 0 },
            items,
            earliest,
            latest,
            duration,
            min_duration: duration,
            provisos: Provisos::NONE,
            history: History::first(earliest),
            receipts: Vec::new(),
            reply: Reply::Grant,
            answer_by: latest,
            properties: Properties::default(),
        }
    }

    fn units(&mut self, resource: &'static str, most: u32) -> Item {
        let units = u32::try_from(self.random.below(u64::from(most))).unwrap() + 1;
        Item::new(Name::literal(resource), NonZeroU32::new(units).unwrap())
    }

    fn start(&mut self) -> Time {
        let seconds = YEAR.as_micros().unsigned_abs() / 1_000_000;
        Time::from_secs(3_600 + i64::try_from(self.random.below(seconds)).unwrap())
    }

    /// One to eight units for one to four hours, at some time of the year.
    fn booking(&mut self) -> Request {
        let resource = if self.random.below(2) == 0 { "node" } else { "gpu" };
        let (item, start) = (self.units(resource, 8), self.start());
        let minutes = 60 + i64::try_from(self.random.below(180)).unwrap();
        self.request(vec![item], start, Span::HOUR.times(12), Span::MINUTE.times(minutes))
    }

    /// Elastic, of two types, within a week.
    fn question(&mut self) -> Request {
        let (mut nodes, gpus) = (self.units("node", 8), self.units("gpu", 4));
        nodes.min_units = NonZeroU32::new(nodes.units.get().div_ceil(2)).unwrap();
        let start = self.start();
        self.request(vec![nodes, gpus], start, Span::DAY.times(7), Span::HOUR.times(2))
    }
}
