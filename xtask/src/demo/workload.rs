//! The hour of limo-2018, section 4.4: its six sections, with the times of the hour counted from its begin.

use anyhow::Result;
use limo_model::{Band, Curve, Power, Span, Time};

/// The benchmarks of each set, in the order in which they are submitted.
pub const APPLICATIONS: [&str; 5] = ["cg", "ep", "ft", "is", "mg"];

/// A row of Table 4.6.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// How often each benchmark is submitted at the begin of the section.
    pub sets: usize,
    low_w: i64,
    high_w: i64,
}

/// Table 4.6.
pub const SECTIONS: [Section; 6] = [
    Section { sets: 4, low_w: 39, high_w: 60 },
    Section { sets: 4, low_w: 60, high_w: 90 },
    Section { sets: 4, low_w: 39, high_w: 60 },
    Section { sets: 2, low_w: 65, high_w: 95 },
    Section { sets: 1, low_w: 100, high_w: 160 },
    Section { sets: 1, low_w: 80, high_w: 150 },
];

const SECTION: Span = Span::from_secs(600);

/// The begin of the hour. Times of the hour count from here.
pub const BEGIN: Time = Time::from_unix_ms(0);

/// The end of the hour.
pub const END: Time = Time::from_unix_ms(SECTION.ms() * SECTIONS.len() as i64);

impl Section {
    /// The jobs of the section, by application.
    pub fn jobs(self) -> impl Iterator<Item = &'static str> {
        (0..self.sets).flat_map(|_| APPLICATIONS)
    }

    pub fn band(self) -> Result<Band> {
        Ok(Band::new(Power::from_watts(self.low_w), Power::from_watts(self.high_w))?)
    }
}

/// When each section begins.
pub fn sections() -> impl Iterator<Item = (Time, Section)> {
    SECTIONS.into_iter().enumerate().map(|(index, section)| (BEGIN + SECTION.scaled(index as i64, 1), section))
}

/// The power limits of the hour, known to its end.
///
/// # Errors
/// None for the table as it stands.
pub fn limits() -> Result<Curve<Band>> {
    let steps = sections().map(|(at, section)| Ok((at, section.band()?))).collect::<Result<Vec<_>>>()?;
    Ok(Curve::new(steps, Some(END))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_jobs_in_sixty_minutes() {
        assert_eq!(SECTIONS.iter().map(|section| section.jobs().count()).sum::<usize>(), 80);
        assert_eq!(END - BEGIN, Span::from_secs(3600));
        assert_eq!(SECTIONS[4].jobs().collect::<Vec<_>>(), APPLICATIONS);
    }

    #[test]
    fn limits_of_table_4_6() {
        let limits = limits().expect("a curve");
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
        assert_eq!(limits.until(), Some(END));
    }
}
