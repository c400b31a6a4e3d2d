//! `report.html`: one page that shows a run without a network: Gantt chart, draw, budget, queue, processors, price.
//!
//! Collects what the page shows in bounded memory and puts it, as JSON, into the page. Drawing is done by the scripts, in
//! this order: `scale.js` (units and axes), `figures.js` (what is drawn), `page.js` (the page around it).

mod gantt;
mod series;

use limo_model::Time;

use self::gantt::Gantt;
use self::series::Series;
use super::json::Json;
use crate::record::{BudgetPeriod, Heading, JobRow, Sample};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("scale.js"), include_str!("figures.js"), include_str!("page.js"));

/// See the module.
#[derive(Debug)]
pub struct Report {
    gantt: Gantt,
    series: Series,
}

impl Report {
    pub fn new(heading: &Heading) -> Self {
        Self { gantt: Gantt::new(heading.processors), series: Series::default() }
    }

    pub fn job(&mut self, job: &JobRow<'_>) {
        self.gantt.add(job);
    }

    pub fn sample(&mut self, sample: &Sample) {
        self.series.add(sample);
    }

    /// The page, once, at `end`. `schedule` is the JSON of the figures that it tabulates.
    pub fn page(&mut self, heading: &Heading, (end, budgets): (Time, &[BudgetPeriod]), schedule: &str) -> String {
        self.series.end(end);
        let mut json = Json::default();
        let ms = |time: Time| i128::from((time - heading.start).ms());
        json.object(|json| {
            json.key("schedule").raw(schedule);
            json.key("budgets").array(|json| {
                for period in budgets {
                    json.array(|json| {
                        json.int(ms(period.window.from));
                        json.int(ms(period.window.until));
                    });
                }
            });
            json.key("gantt");
            self.gantt.write(json, heading.start);
            json.key("series");
            self.series.write(json, heading.start);
        });
        let title = format!("{} on {}", heading.policy, heading.workload);
        let parts = [("title", escaped(&title)), ("style", STYLE.to_owned()), ("script", SCRIPT.to_owned())];
        let page =
            parts.iter().fold(PAGE.to_owned(), |page, (key, text)| page.replace(&format!("{{{{{key}}}}}"), text));
        // Last: what a name in the data says is not a marker.
        page.replace("{{data}}", &json.into_text())
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("{{", "{ {")
}
