//! Predicted draws that differ from the real ones (power-capping-2018, section 5.2.4).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use limo_model::{Cores, Power, Predicted, Request, Span, decimal};
use limo_trace::generate::Dice;
use limo_trace::platform::Group;
use limo_trace::{CompactSpan, Platform, Workload};

use crate::setup::Share;

/// A share of the jobs with a wrong prediction: their predicted draw is the real one times a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mispredict {
    /// Share of the jobs, in hundredths of a percent.
    pub hundredths: u64,
    /// Factor, in thousandths.
    pub factor_permille: u32,
    /// Seed of the choice of these jobs; without one they are spread evenly over the jobs, from the first on.
    pub seed: Option<u64>,
}

/// Largest factor, in thousandths.
const LARGEST: u32 = 10_000;

impl FromStr for Mispredict {
    type Err = String;

    /// Reads `10%:0.6`, or `10%:0.6:7` with a seed.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |what: &str| format!("`{text}`: {what}; write for example `10%:0.6`, or `10%:0.6:7` with a seed");
        let mut parts = text.splitn(3, ':');
        let (share, factor, seed) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let Share(hundredths) = share.parse().map_err(|_| refused("the share of the jobs is not from 0% to 100%"))?;
        let factor = factor.and_then(|factor| decimal::parse(factor, 3)).and_then(|of| u32::try_from(of).ok());
        let factor = factor.filter(|of| *of <= LARGEST);
        let factor_permille =
            factor.ok_or_else(|| refused("the factor is not from 0 to 10 with up to three decimals"))?;
        let seed = seed.map(|seed| seed.parse().map_err(|_| refused("the seed is not a whole number"))).transpose()?;
        Ok(Self { hundredths, factor_permille, seed })
    }
}

impl fmt::Display for Mispredict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", Share(self.hundredths), decimal::text(self.factor_permille.into(), 3))?;
        self.seed.map_or(Ok(()), |seed| write!(f, ":{seed}"))
    }
}

impl Mispredict {
    /// Returns the predicted draw of the job with this index, whose real draw is given.
    pub fn predicted(self, index: usize, real: Power) -> Power {
        if self.is_wrong(index as u64) { real.scaled(self.factor_permille.into(), 1_000) } else { real }
    }

    fn is_wrong(self, index: u64) -> bool {
        const ALL: u64 = 10_000;
        match self.seed {
            None => (index % ALL * self.hundredths) % ALL < self.hundredths,
            // A generator for each job, so that the order of the questions does not matter.
            Some(seed) => Dice::of_purpose(seed ^ (index << 32), 0).unit() * (ALL as f64) < self.hundredths as f64,
        }
    }

    /// Adds the prediction of a job to its request, for each type of unit.
    pub fn predict(self, (platform, workload): (&Platform, &Workload), index: usize, request: &mut Request) {
        let job = &workload.jobs[index];
        let name = workload.application(job).map_or("", |application| &application.name);
        let duration = job.walltime.map_or(job.run, CompactSpan::span);
        let mut known = BTreeSet::new();
        for (hardware, cores, draw) in platform.groups.iter().flat_map(|group| units(group, name)) {
            let takes = match request.cores {
                Cores::All => cores,
                Cores::Count(count) => count.get().min(cores),
            };
            if request.predicted.len() < limo_model::PREDICTED_LIMIT && known.insert(hardware) {
                let mean = self.predicted(index, draw.scaled(takes.into(), cores.into()));
                request.predicted.push(predicted(hardware, takes, (mean, duration)));
            }
        }
    }
}

fn predicted(hardware: &str, cores: u32, (mean, duration): (Power, Span)) -> Predicted {
    let hardware = hardware.to_owned();
    Predicted { hardware, cores, model: 0, mean, deviation: Power::ZERO, high: mean, duration }
}

/// Returns the types of units of a group, each with its cores and the real draw of an application on all of them.
fn units<'g>(group: &'g Group, application: &str) -> Vec<(&'g str, u32, Power)> {
    if group.units.is_empty() {
        return vec![(&group.hardware, group.cores, group.draw.busy - group.draw.idle)];
    }
    let draw =
        |unit: &limo_trace::platform::Unit| unit.applications.get(application).map_or(unit.draw, |run| run.power);
    group.units.iter().map(|unit| (unit.hardware.as_str(), unit.cores, draw(unit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_shown() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let found = text.parse::<Mispredict>().map(|of| of.to_string());
            let hint = "write for example `10%:0.6`, or `10%:0.6:7` with a seed";
            let expected = expected.map(str::to_owned).map_err(|what| format!("`{text}`: {what}; {hint}"));
            assert_eq!(found, expected);
        };
        check("10%:0.6", Ok("10%:0.6"));
        check("2.5%:1.25:7", Ok("2.50%:1.25:7"));
        check("101%:0.6", Err("the share of the jobs is not from 0% to 100%"));
        let factor = "the factor is not from 0 to 10 with up to three decimals";
        check("10%", Err(factor));
        check("10%:-1", Err(factor));
        check("10%:10.001", Err(factor));
        check("10%:0.6:x", Err("the seed is not a whole number"));
    }

    #[test]
    fn a_share_of_the_jobs_is_predicted_wrongly() {
        let wrong = |hundredths, seed, jobs: u64| {
            let of = Mispredict { hundredths, factor_permille: 600, seed };
            (0..jobs).filter(|index| of.is_wrong(*index)).collect::<Vec<_>>()
        };
        assert_eq!(wrong(1_000, None, 25), [0, 10, 20], "every tenth");
        assert_eq!(wrong(2_500, None, 9), [0, 4, 8]);
        assert_eq!(wrong(0, None, 100).len() + wrong(0, Some(3), 100).len(), 0);
        assert_eq!(wrong(10_000, Some(3), 100).len(), 100);
        // The deviation of a sum of 10,000 draws of 10 % is 30.
        assert!((850..1_150).contains(&wrong(1_000, Some(3), 10_000).len()));
        assert_ne!(wrong(1_000, Some(3), 100), wrong(1_000, Some(4), 100));
        let of = Mispredict { hundredths: 1_000, factor_permille: 600, seed: None };
        assert_eq!([0, 1].map(|index| of.predicted(index, Power::from_watts(50)).watts()), [30.0, 50.0]);
    }
}
