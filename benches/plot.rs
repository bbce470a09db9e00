//! Growth curves as an SVG: time over pods, both logarithmic.

use std::fmt::Write;

use super::numbers::{count, time};

/// A named curve: points of (pods, nanoseconds).
pub struct Curve {
    /// The name in the legend.
    pub name: &'static str,
    /// The points, ascending.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 200.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
const COLORS: [&str; 8] = [
    "#c0392b", "#e67e22", "#2980b9", "#27ae60", "#8e44ad", "#16a085", "#7f8c8d", "#2c3e50",
];

/// Draws curves, each with its name at its end.
pub fn draw(title: &str, curves: &[Curve]) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points).copied();
    let decades = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        (least.log10().floor(), most.log10().ceil())
    };
    let (x0, x1) = decades(&mut points().map(|(x, _)| x));
    let (y0, y1) = decades(&mut points().map(|(_, y)| y));
    let x = |value: f64| LEFT + (value.log10() - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT);
    let y =
        |value: f64| HEIGHT - BOTTOM - (value.log10() - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    let mut add = |text: String| writeln!(svg, "{text}").expect("a string takes everything");
    axes((x0, x1), (y0, y1), (&x, &y), &mut add);
    for (name, color, label_y, line) in labelled(curves, &x, &y) {
        add(format!(
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{:.1}\" fill=\"{color}\">{name}</text>",
            WIDTH - RIGHT + 8.0,
            label_y
        ));
    }
    svg + "</svg>\n"
}

/// Draws lines for the powers of ten, with their values.
fn axes(
    (x0, x1): (f64, f64),
    (y0, y1): (f64, f64),
    (x, y): (&impl Fn(f64) -> f64, &impl Fn(f64) -> f64),
    add: &mut impl FnMut(String),
) {
    for decade in x0 as i32..=x1 as i32 {
        let (at, bottom) = (x(10_f64.powi(decade)), HEIGHT - BOTTOM);
        add(format!(
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            count(10_usize.pow(decade.unsigned_abs()))
        ));
    }
    for decade in y0 as i32..=y1 as i32 {
        let (value, right) = (10_f64.powi(decade), WIDTH - RIGHT);
        let at = y(value);
        add(format!(
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            time(value)
        ));
    }
    add(format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">pods</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 12.0
    ));
}

/// The curves with a color, a place for the name and the line; names that
/// would overlap are moved apart.
fn labelled<'a>(
    curves: &'a [Curve],
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> Vec<(&'a str, &'static str, f64, String)> {
    const LINE: f64 = 14.0;
    let mut all: Vec<_> = curves
        .iter()
        .filter(|curve| !curve.points.is_empty())
        .zip(COLORS.iter().cycle())
        .map(|(curve, color)| {
            let points = curve.points.iter();
            let line: Vec<String> = points
                .map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py)))
                .collect();
            let (_, last) = curve.points[curve.points.len() - 1];
            (curve.name, *color, y(last) + 4.0, line.join(" "))
        })
        .collect();
    all.sort_by(|a, b| a.2.total_cmp(&b.2));
    for i in 1..all.len() {
        all[i].2 = all[i].2.max(all[i - 1].2 + LINE);
    }
    all
}
