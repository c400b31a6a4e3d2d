//! Transparency platform of ENTSO-E: day-ahead prices of all of Europe, in XML, with a token.
//!
//! `GET /api?documentType=A44&in_Domain=..&out_Domain=..&periodStart=YYYYMMDDHHMM&periodEnd=..&securityToken=..`, times
//! in UTC. A `Publication_MarketDocument` holds `TimeSeries/Period/{timeInterval/{start,end}, resolution,
//! Point/{position, price.amount}}` in any version of the namespace. A missing position of a curve of type A03 repeats
//! the one before it; in other types it is a gap. "No data" and refusals come as `Acknowledgement_MarketDocument`, with
//! status 200 or 400.
//!
//! Some zones (DE-LU, AT) have several auctions, distinguished by
//! `classificationSequence_AttributeInstanceComponent.position`: the configured one counts, or the lowest of an
//! interval. A series without that is the first.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use limo_model::{Price, Span, Time};
use roxmltree::{Document, Node};
use serde::Deserialize;

use crate::config::{ConfigError, Token};
use crate::error::{FeedError, quoted};
use crate::fetch::Request;
use crate::moment::{self, TimeFormat, Window};
use crate::slot::{SLOT_LIMIT, Slot, ordered, within_limit};
use crate::source::{CurveSource, Page};
use crate::template::{Template, escaped};
use crate::unit::Unit;

/// The public server.
pub const BASE: &str = "https://web-api.tp.entsoe.eu";

/// Element with the number of the auction.
const SEQUENCE: &str = "classificationSequence_AttributeInstanceComponent.position";

/// Type of curve whose missing positions repeat the one before.
const REPEATING: &str = "A03";

/// The settings of this source.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The code of a bidding zone: `10Y1001A1001A82H` is DE-LU.
    zone: String,
    token_file: Token,
    #[serde(default = "super::nordpool::eur")]
    currency: String,
    /// Number of the auction, if a zone has several.
    #[serde(default)]
    sequence: Option<u32>,
}

/// Source.
pub struct Entsoe {
    url: Template,
    token: String,
    zone: TimeZone,
    unit: Unit,
    sequence: Option<u32>,
}

/// Makes the source.
///
/// # Errors
/// If the base is not an address, the currency is invalid, or the token cannot be read.
pub fn source(base: &str, options: Options) -> Result<Entsoe, ConfigError> {
    let (zone, token) = (escaped(&options.zone), options.token_file.read()?);
    let url = format!(
        "{base}/api?documentType=A44&in_Domain={zone}&out_Domain={zone}&periodStart={{start_compact}}\
         &periodEnd={{end_compact}}&securityToken={}",
        escaped(&token)
    );
    let invalid = |key, reason| ConfigError::Value { key, reason };
    Ok(Entsoe {
        url: Template::new(&url)
            .map_err(|error| invalid("base", error.to_string().replace(&escaped(&token), "***")))?,
        token,
        zone: super::zone_named("Europe/Brussels")?,
        unit: format!("{}/MWh", options.currency)
            .parse()
            .map_err(|error: crate::unit::UnitTextError| invalid("currency", error.to_string()))?,
        sequence: options.sequence,
    })
}

impl CurveSource<Price> for Entsoe {
    fn currency(&self) -> &str {
        self.unit.currency()
    }

    fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn requests(&self, window: &Window) -> Vec<Request> {
        let request =
            |url: String| Request::get(url).accepting(&["application/xml"]).tolerating(&[400]).hiding(&self.token);
        self.url.expand(window, &self.zone).into_iter().map(request).collect()
    }

    fn parse(&self, body: &[u8]) -> Result<Page<Price>, FeedError> {
        let syntax = |reason: String| FeedError::Syntax { kind: "XML", reason };
        let text = std::str::from_utf8(body).map_err(|error| syntax(error.to_string()))?;
        let text = text.trim_start_matches('\u{feff}');
        let document = Document::parse(text).map_err(|error| syntax(error.to_string()))?;
        let root = document.root_element();
        match root.tag_name().name() {
            "Publication_MarketDocument" => {}
            "Acknowledgement_MarketDocument" => return Err(acknowledged(root)),
            other => return Err(FeedError::found("the document", other, "`Publication_MarketDocument`")),
        }
        let mut series: BTreeMap<u32, Vec<Slot>> = BTreeMap::new();
        let mut count = 0;
        for node in children(root, "TimeSeries") {
            let sequence = self.sequence_of(node)?;
            if self.sequence.is_none_or(|wanted| wanted == sequence) {
                self.check_units(node)?;
                let slots = self.slots(node)?;
                // A few bytes of a repeating curve can stand for a year of slots.
                count += slots.len();
                within_limit(count)?;
                series.entry(sequence).or_default().extend(slots);
            }
        }
        let mut slots: Vec<Slot> = Vec::new();
        for found in series.into_values() {
            // Slots of a lower sequence keep their values.
            let own: Vec<Slot> = ordered(found)?.into_iter().filter(|slot| !overlaps(&slots, slot)).collect();
            slots.extend(own);
            slots = ordered(slots)?;
        }
        if slots.is_empty() {
            return Err(FeedError::NotPublished { said: "the document has no prices".into() });
        }
        Ok(Page { slots, next: None })
    }
}

impl Entsoe {
    fn sequence_of(&self, series: Node<'_, '_>) -> Result<u32, FeedError> {
        let Some(node) = children(series, SEQUENCE).next() else { return Ok(1) };
        let text = node.text().unwrap_or_default().trim();
        text.parse().map_err(|_| wrong(node, "a whole number"))
    }

    fn check_units(&self, series: Node<'_, '_>) -> Result<(), FeedError> {
        for (name, wanted) in [("currency_Unit.name", self.unit.currency()), ("price_Measure_Unit.name", "MWH")] {
            if let Some(node) = children(series, name).next()
                && !node.text().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
            {
                return Err(wrong(node, &format!("`{wanted}`")));
            }
        }
        Ok(())
    }

    fn slots(&self, series: Node<'_, '_>) -> Result<Vec<Slot>, FeedError> {
        let curve = children(series, "curveType").next().and_then(|node| node.text()).unwrap_or_default().trim();
        let mut slots = Vec::new();
        for period in children(series, "Period") {
            slots.extend(self.period(period, curve == REPEATING)?);
            within_limit(slots.len())?;
        }
        Ok(slots)
    }

    fn period(&self, period: Node<'_, '_>, repeats: bool) -> Result<Vec<Slot>, FeedError> {
        let interval = child(period, "timeInterval")?;
        let (start, end) = (self.time(child(interval, "start")?)?, self.time(child(interval, "end")?)?);
        let resolution = child(period, "resolution")?;
        let step = match resolution.text().unwrap_or_default().trim() {
            "PT15M" => Span::from_secs(900),
            "PT30M" => Span::from_secs(1800),
            "PT60M" | "PT1H" => Span::from_secs(3600),
            _ => return Err(wrong(resolution, "PT15M, PT30M or PT60M")),
        };
        let (length, step) = ((end - start).ms(), step.ms());
        let count = length / step;
        if length <= 0 || length % step != 0 || count > SLOT_LIMIT as i64 {
            return Err(wrong(interval, "a whole number of steps of its resolution"));
        }
        let mut points = BTreeMap::new();
        for point in children(period, "Point") {
            let (position, amount) = (child(point, "position")?, child(point, "price.amount")?);
            let at = position.text().and_then(|text| text.trim().parse::<i64>().ok());
            let at =
                at.filter(|at| (1..=count).contains(at)).ok_or_else(|| wrong(position, &format!("1 to {count}")))?;
            let price = self.unit.thousandths(amount.text().unwrap_or_default());
            let price = price.ok_or_else(|| wrong(amount, &format!("a number of {}", self.unit)))?;
            if points.insert(at, Price::from_milli_per_mwh(price)).is_some() {
                return Err(wrong(position, "a position that occurs once"));
            }
        }
        let mut slots = Vec::new();
        let mut last = None;
        for at in 1..=count {
            last = points.get(&at).copied().or(last.filter(|_| repeats));
            let from = start + Span::from_ms((at - 1) * step);
            slots.extend(last.map(|value| Slot { from, until: from + Span::from_ms(step), value }));
        }
        Ok(slots)
    }

    fn time(&self, node: Node<'_, '_>) -> Result<Time, FeedError> {
        let read = node.text().and_then(|text| moment::parse(text, TimeFormat::Rfc3339, &self.zone, None));
        read.ok_or_else(|| wrong(node, "a time such as `2026-10-25T22:00Z`"))
    }
}

fn overlaps(slots: &[Slot], slot: &Slot) -> bool {
    let after = slots.partition_point(|other| other.until <= slot.from);
    slots.get(after).is_some_and(|other| other.from < slot.until)
}

/// Returns the child elements with a name; the namespace, which changes with its version, is ignored.
fn children<'a, 'input: 'a>(node: Node<'a, 'input>, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn child<'a, 'input: 'a>(node: Node<'a, 'input>, name: &'static str) -> Result<Node<'a, 'input>, FeedError> {
    children(node, name).next().ok_or_else(|| {
        let place = format!("{} in {}", place(node), node.tag_name().name());
        FeedError::Found { place, found: "without one".into(), expected: format!("<{name}>") }
    })
}

fn place(node: Node<'_, '_>) -> String {
    let at = node.document().text_pos_at(node.range().start);
    format!("line {}, column {}", at.row, at.col)
}

fn wrong(node: Node<'_, '_>, expected: &str) -> FeedError {
    let place = format!("{}, <{}>,", place(node), node.tag_name().name());
    FeedError::found(place, node.text().unwrap_or_default(), expected)
}

/// Interprets the platform's message in place of data.
fn acknowledged(root: Node<'_, '_>) -> FeedError {
    let reason =
        children(root, "Reason").flat_map(|reason| children(reason, "text")).filter_map(|text| text.text()).next();
    let said = quoted(reason.unwrap_or_default());
    if said.contains("No matching data") { FeedError::NotPublished { said } } else { FeedError::Said { said } }
}

#[cfg(test)]
mod tests;
