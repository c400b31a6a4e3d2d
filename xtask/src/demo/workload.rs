//! The hour of limo-2018, section 4.4, at the beginning of a longer day: its sections, with times counted from the
//! beginning of the hour.
//!
//! Limits and prices continue after the hour, so that no policy knows its end. No jobs are submitted after it, because
//! they could not change the hour.

use anyhow::Result;
use limo_model::{Band, Curve, Power, Span, Time};

/// The benchmarks of each set, in the order in which they are submitted.
pub const APPLICATIONS: [&str; 5] = ["cg", "ep", "ft", "is", "mg"];

/// A row of Table 4.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Submissions of each benchmark at the beginning of the section.
    pub sets: usize,
    pub low_w: i64,
    pub high_w: i64,
}

/// The sections of Table 4.6.
pub const SECTIONS: [Section; 6] = [
    Section { sets: 4, low_w: 39, high_w: 60 },
    Section { sets: 4, low_w: 60, high_w: 90 },
    Section { sets: 4, low_w: 39, high_w: 60 },
    Section { sets: 2, low_w: 65, high_w: 95 },
    Section { sets: 1, low_w: 100, high_w: 160 },
    Section { sets: 1, low_w: 80, high_w: 150 },
];

pub const SECTION: Span = Span::from_secs(600);

/// Number of hours with known limits and prices; the first one is measured.
pub const HOURS_OF_DAY: usize = 3;

/// The begin of the hour. Times of the hour count from here.
pub const BEGIN: Time = Time::from_unix_ms(0);

/// The end of the hour.
pub const END: Time = Time::from_unix_ms(SECTION.ms() * SECTIONS.len() as i64);

/// End of the known limits and prices.
pub const END_OF_DAY: Time = Time::from_unix_ms(END.unix_ms() * HOURS_OF_DAY as i64);

impl Section {
    /// Returns the jobs of the section, by application.
    pub fn jobs(self) -> impl Iterator<Item = &'static str> {
        (0..self.sets).flat_map(|_| APPLICATIONS)
    }

    pub fn band(self) -> Result<Band> {
        Ok(Band::new(Power::from_watts(self.low_w), Power::from_watts(self.high_w))?)
    }
}

/// The sections of a day, those of the hour first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day(pub Vec<Section>);

impl Day {
    /// Returns Table 4.6, with its limits repeated.
    pub fn of_2018() -> Self {
        let later = SECTIONS.map(|section| Section { sets: 0, ..section });
        Self([&SECTIONS[..], &later.repeat(HOURS_OF_DAY - 1)].concat())
    }

    /// Returns the beginning of each section.
    pub fn sections(&self) -> impl Iterator<Item = (Time, Section)> {
        self.0.iter().enumerate().map(|(index, section)| (BEGIN + SECTION.scaled(index as i64, 1), *section))
    }

    /// Returns the power limits of the day, known to its end.
    ///
    /// # Errors
    /// If a lower limit is above its upper one.
    pub fn limits(&self) -> Result<Curve<Band>> {
        let steps = self.sections().map(|(at, section)| Ok((at, section.band()?))).collect::<Result<Vec<_>>>()?;
        Ok(Curve::new(steps, Some(END_OF_DAY))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_jobs_in_sixty_minutes() {
        let day = Day::of_2018();
        assert_eq!(day.sections().map(|(_, section)| section.jobs().count()).sum::<usize>(), 80);
        assert!(day.sections().filter(|(at, _)| *at >= END).all(|(_, section)| section.sets == 0));
        assert_eq!(END - BEGIN, Span::from_secs(3600));
        assert_eq!(SECTIONS[4].jobs().collect::<Vec<_>>(), APPLICATIONS);
    }

    #[test]
    fn limits_of_table_4_6_continue_after_the_hour() {
        let limits = Day::of_2018().limits().expect("a curve");
        let check = |minute: i64, low: i64, high: i64| {
            let band = limits.band(BEGIN + Span::from_secs(60 * minute));
            assert_eq!((band.low(), band.high()), (Power::from_watts(low), Power::from_watts(high)), "minute {minute}");
        };
        check(0, 39, 60);
        check(10, 60, 90);
        check(29, 39, 60);
        check(30, 65, 95);
        check(40, 100, 160);
        check(59, 80, 150);
        check(60, 39, 60);
        check(179, 80, 150);
        assert_eq!(limits.until(), Some(BEGIN + Span::from_secs(3 * 3600)));
    }
}
