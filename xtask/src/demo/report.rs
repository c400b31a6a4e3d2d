//! The figures of the runs, as a table next to those of limo-2018, and as JSON.

use serde::Serialize;

use super::measure::Figures;
use super::spread::Spread;

/// The version of the JSON.
const SCHEMA: u32 = 1;

/// Figures reported in limo-2018, section 4.4.
struct Published {
    system: &'static str,
    in_band: &'static str,
    cost: &'static str,
}

/// A run and its figures.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    pub name: &'static str,
    pub in_band_share: f64,
    /// Largest draw above the upper limit.
    pub above_upper_max_w: f64,
    pub energy_j: f64,
    pub cost_eur: f64,
    pub makespan_s: f64,
    pub mean_wait_s: f64,
    pub jobs: usize,
    /// Execution units on which the jobs could run.
    pub units: usize,
}

/// All runs.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    runs: Vec<RunReport>,
    /// True because the watts are those of emulated hardware.
    emulated: bool,
    /// True if `lsim` simulated the runs without daemons and jobs.
    simulated: bool,
    /// Seconds of wall time for the hour.
    hour_s: i64,
    price_source: String,
    svg: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    random_hours: Option<Spread>,
}

impl RunReport {
    pub fn new(name: &'static str, units: usize, jobs: usize, figures: &Figures) -> Self {
        Self {
            name,
            in_band_share: figures.in_band_share,
            above_upper_max_w: figures.above_upper.watts(),
            energy_j: figures.energy.joules(),
            cost_eur: figures.cost.whole(),
            makespan_s: figures.makespan.secs(),
            mean_wait_s: figures.mean_wait.secs(),
            jobs,
            units,
        }
    }

    /// Returns the corresponding system of limo-2018. The paper's Limo is the prototype.
    fn published(&self) -> Option<Published> {
        match self.name {
            "fifo" | "slurm" => Some(Published { system: "SLURM", in_band: "16.9 %", cost: "0.05 EUR paid" }),
            "limo-prototype" => Some(Published { system: "Limo", in_band: "97.5 %", cost: "0.10 EUR earned" }),
            _ => None,
        }
    }
}

impl Report {
    pub fn new(runs: Vec<RunReport>, hour_s: i64, price_source: String, svg: String) -> Self {
        Self { schema: SCHEMA, runs, emulated: true, simulated: false, hour_s, price_source, svg, random_hours: None }
    }

    /// Marks the report as simulated.
    pub fn simulated(self) -> Self {
        Self { simulated: true, ..self }
    }

    /// Adds the results of random hours.
    pub fn beside(self, random_hours: Option<Spread>) -> Self {
        Self { random_hours, ..self }
    }

    /// Formats the report as JSON.
    ///
    /// # Errors
    /// Never, because all figures are numbers.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    pub fn table(&self) -> String {
        type Cell = fn(&RunReport) -> String;
        let rows: [(&str, Cell); 9] = [
            ("jobs", |run| run.jobs.to_string()),
            ("execution units", |run| run.units.to_string()),
            ("time inside the band", |run| format!("{:.1} %", run.in_band_share * 100.0)),
            ("above the upper limit", |run| above(run.above_upper_max_w)),
            ("energy", |run| format!("{:.0} kJ", run.energy_j / 1e3)),
            ("cost over the four days", |run| money(run.cost_eur)),
            ("makespan", |run| format!("{:.1} min", run.makespan_s / 60.0)),
            ("mean wait", |run| format!("{:.1} min", run.mean_wait_s / 60.0)),
            ("limo-2018 reports", |run| {
                let published = run.published();
                published.map_or_else(String::new, |of| format!("{}: {}, {}", of.system, of.in_band, of.cost))
            }),
        ];
        let mut table = format!("{:<24}", "run");
        table.extend(self.runs.iter().map(|run| format!("  {:>30}", run.name)));
        for (title, cell) in rows {
            table += &format!("\n{title:<24}");
            table.extend(self.runs.iter().map(|run| format!("  {:>30}", cell(run))));
        }
        let how =
            if self.simulated { "Simulated by lsim, without a process or a wattmeter" } else { "Emulated hardware" };
        let time = match self.hour_s {
            60 => "a minute".to_owned(),
            360 => "six minutes".to_owned(),
            seconds => format!("{seconds} s"),
        };
        format!(
            "{table}\n\n{how}; an hour in {time}, and every figure in the time of the hour.\nPrices: {}, \
             each moment of the hour standing for 96.\nThe curves: {}\n",
            self.price_source, self.svg
        ) + &self.random_hours.as_ref().map_or_else(String::new, Spread::table)
    }
}

pub fn above(watts: f64) -> String {
    if watts > 0.0 { format!("up to {watts:.1} W") } else { "never".into() }
}

pub fn money(eur: f64) -> String {
    let word = if eur < 0.0 { "earned" } else { "paid" };
    format!("{:.3} EUR {word}", eur.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use limo_model::{Energy, Money, Power, Span};

    fn report() -> Report {
        let figures = |share, cost| Figures {
            in_band_share: share,
            above_upper: Power::from_mw(2_500),
            energy: Energy::from_joules(200_000),
            cost: Money::from_micro(cost),
            makespan: Span::from_secs(3600),
            mean_wait: Span::from_secs(90),
        };
        let runs = vec![
            RunReport::new("fifo", 4, 80, &figures(0.169, 50_000)),
            RunReport::new("limo-prototype", 6, 80, &figures(0.975, -100_000)),
        ];
        Report::new(runs, 60, "an example".into(), "demo.svg".into())
    }

    #[test]
    fn json_keeps_the_keys_for_programs() {
        let json: serde_json::Value = serde_json::from_str(&report().json().expect("JSON")).expect("JSON");
        let expected = serde_json::json!({
            "name": "limo-prototype", "in_band_share": 0.975, "above_upper_max_w": 2.5, "energy_j": 200_000.0, "cost_eur": -0.1, "makespan_s": 3600.0,
            "mean_wait_s": 90.0, "jobs": 80, "units": 6,
        });
        assert_eq!((&json["schema"], &json["runs"][1]), (&serde_json::json!(1), &expected));
        assert_eq!((&json["runs"][0]["name"], &json["hour_s"]), (&"fifo".into(), &60.into()));
        assert!(json.get("random_hours").is_none());
    }

    #[test]
    fn the_table_stands_beside_limo_2018() {
        let table = report().table();
        let line = |title: &str| table.lines().find(|line| line.starts_with(title)).unwrap_or_default().to_owned();
        let cells = |title: &str| {
            line(title)[24..].split("  ").map(str::trim).filter(|c| !c.is_empty()).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(cells("time inside the band"), ["16.9 %", "97.5 %"]);
        assert_eq!(cells("above the upper limit"), ["up to 2.5 W", "up to 2.5 W"]);
        assert_eq!(cells("cost over the four days"), ["0.050 EUR paid", "0.100 EUR earned"]);
        assert_eq!(cells("mean wait"), ["1.5 min", "1.5 min"]);
        assert_eq!(cells("limo-2018 reports"), ["SLURM: 16.9 %, 0.05 EUR paid", "Limo: 97.5 %, 0.10 EUR earned"]);
        assert!(table.contains("an hour in a minute,"), "{table}");
    }

    #[test]
    fn slurm_stands_beside_slurm_and_takes_six_minutes() {
        let mut report = Report { hour_s: 360, ..report() };
        report.runs[0].name = "slurm";
        let table = report.table();
        assert!(table.contains("  SLURM: 16.9 %, 0.05 EUR paid  "), "{table}");
        assert!(table.contains("an hour in six minutes,"), "{table}");
    }
}
