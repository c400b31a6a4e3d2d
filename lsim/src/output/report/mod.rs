//! `report.html`: a page about a run that works offline: Gantt chart, draw, budget, queue, processors, price.
//!
//! Collects the data in bounded memory and embeds it as JSON. Scripts draw it: those of `limo_plot` (units, axes
//! and parts of pages), `figures.js` (figures), `page.js` (page).

mod gantt;
mod pool;
mod series;

use limo_model::Time;

use self::gantt::Gantt;
use self::series::Series;
use super::json::Json;
use crate::record::{BudgetPeriod, Heading, JobRow, Sample, Summary};

const PAGE: &str = include_str!("page.html");
const STYLES: [&str; 2] = [limo_plot::PALETTE, include_str!("page.css")];
const SCRIPTS: [&str; 4] = [limo_plot::SCALE, limo_plot::PARTS, include_str!("figures.js"), include_str!("page.js")];

/// The report; see the module.
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

    /// Makes the page, once, at the end. `schedule` is the JSON of the figures in its table.
    pub fn page(&mut self, heading: &Heading, (summary, unfinished): (&Summary, u64), schedule: &str) -> String {
        let budgets = &summary.budgets;
        self.series.end(summary.end);
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
            json.key("outcomes").array(|json| {
                for (name, value) in outcomes(budgets, unfinished) {
                    json.array(|json| {
                        json.text(name);
                        json.text(&value);
                    });
                }
            });
            json.key("gantt");
            self.gantt.write(json, heading.start);
            json.key("series");
            self.series.write(json, heading.start);
        });
        let title = format!("{} on {}", heading.policy, heading.workload);
        let pool = summary.pool.as_ref().map(pool::section).unwrap_or_default();
        let parts =
            [("title", escaped(&title)), ("style", STYLES.concat()), ("script", SCRIPTS.concat()), ("pool", pool)];
        let page =
            parts.iter().fold(PAGE.to_owned(), |page, (key, text)| page.replace(&format!("{{{{{key}}}}}"), text));
        // The data is inserted last, so that markers in it are not replaced.
        page.replace("{{data}}", &json.into_text())
    }
}

/// Makes the cards with the outcomes of the run: names and values.
fn outcomes(budgets: &[BudgetPeriod], unfinished: u64) -> Vec<(&'static str, String)> {
    let mut cards = Vec::new();
    if unfinished > 0 {
        cards.push(("Jobs left unfinished", unfinished.to_string()));
    }
    let kept = budgets.iter().filter(|period| period.spent <= period.energy).count();
    match budgets {
        [] => {}
        [one] => {
            let name = if kept == 1 { "Budget kept" } else { "Budget overspent" };
            cards.push((name, format!("{} of {}", one.spent, one.energy)));
        }
        several => cards.push(("Budgets kept", format!("{kept} of {}", several.len()))),
    }
    cards
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace("{{", "{ {")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Window;
    use limo_model::Energy;

    #[test]
    fn outcomes_are_named() {
        let period = |spent| {
            let window = Window { from: Time::from_unix_ms(0), until: Time::from_unix_ms(1_000) };
            BudgetPeriod { window, energy: Energy::from_joules(3_600_000), spent: Energy::from_joules(spent) }
        };
        let (kept, over) = (period(3_600_000), period(7_200_000));
        assert_eq!(outcomes(&[], 0), []);
        assert_eq!(outcomes(&[kept], 0), [("Budget kept", "1.000 kWh of 1.000 kWh".to_owned())]);
        assert_eq!(outcomes(&[over], 0), [("Budget overspent", "2.000 kWh of 1.000 kWh".to_owned())]);
        let cards = [("Jobs left unfinished", "7".to_owned()), ("Budgets kept", "1 of 2".to_owned())];
        assert_eq!(outcomes(&[kept, over], 7), cards);
    }
}
