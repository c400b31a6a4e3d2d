//! A job as the published program sees it: what it makes of a line of an instance (PROGRAM.md, section 1). Reads no text.

use limo_trace::log_crypt::LoggedJob;

use super::resources::Resources;

/// Dynamic power of a unit's cores, of a GPU and of a MIC, in watts. The program's predictions are never found.
const UNIT_W: i64 = 40;
const GPU_W: i64 = 62;
const MIC_W: i64 = 115;
/// Bounds of the power of a unit, in watts.
const LEAST_UNIT_W: i64 = 1;
const MOST_UNIT_W: i64 = 400;
/// A job. Times are in seconds, draws in watts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Time after the first arrival of the instance.
    pub arrival_s: i64,
    /// Requested time, at least 1 s.
    pub requested_s: i64,
    /// Duration at full power, at least 1 s and at most the requested time.
    pub run_s: i64,
    pub units: usize,
    /// Resources of each unit.
    pub unit: Resources,
    /// Resources of the job.
    pub total: Resources,
    pub unit_w: i64,
}

impl Job {
    /// Derives the job. `first_s` is the first arrival of the instance.
    pub fn new(logged: &LoggedJob, first_s: i64) -> Self {
        let units = i64::from(logged.units.get());
        // The reader limits all amounts.
        let [cores, gpus, mics, kib] =
            [logged.cores_or_default(), logged.gpus, logged.mics, logged.kib_or_default()].map(|amount| amount as i64);
        let total = Resources([cores, gpus, mics, kib / 1024]);
        let requested_s = logged.requested_s();
        let watts = UNIT_W * units + GPU_W * gpus + MIC_W * mics;
        // The quotient rounded up: both are positive.
        let unit_w = (watts + units - 1) / units;
        Self {
            arrival_s: logged.arrival_s - first_s,
            requested_s,
            run_s: (logged.end_s - logged.start_s).max(1).min(requested_s),
            // The reader limits the number of units.
            units: units as usize,
            unit: Resources(total.0.map(|amount| amount / units)),
            total,
            unit_w: unit_w.clamp(LEAST_UNIT_W, MOST_UNIT_W),
        }
    }

    /// Returns the draw of the whole job at full power.
    pub fn watts(&self) -> i64 {
        // The reader limits the number of units.
        self.unit_w * self.units as i64
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use limo_trace::log_crypt::ApplicationKind;

    use super::*;

    fn logged() -> LoggedJob {
        LoggedJob {
            id: "1".to_owned(),
            queue: "parallel".to_owned(),
            kind: ApplicationKind::Average,
            arrival_s: 1_000,
            units: units(2),
            cores: 16,
            gpus: 4,
            mics: 0,
            memory_kib: 4 * 1024 * 1024,
            start_s: 2_000,
            end_s: 2_100,
            requested_s: 3_600,
        }
    }

    fn units(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).expect("positive")
    }

    #[test]
    fn accelerators_count_by_their_total() {
        let job = Job::new(&logged(), 400);
        // 40 x 2 + 62 x 4 = 328 W, 164 W a unit: the example of PROGRAM.md, section 1.
        assert_eq!((job.watts(), job.unit_w), (328, 164));
        assert_eq!((job.arrival_s, job.requested_s, job.run_s), (600, 3_600, 100));
        assert_eq!((job.unit, job.total), (Resources([8, 2, 0, 2_048]), Resources([16, 4, 0, 4_096])));
    }

    #[test]
    fn the_power_of_a_unit_is_rounded_up_and_limited() {
        // 40 x 3 + 62 = 182 W for three units: 61 W each, 183 W in all.
        let uneven = Job::new(&LoggedJob { units: units(3), gpus: 1, ..logged() }, 0);
        assert_eq!((uneven.unit_w, uneven.watts()), (61, 183));
        // 40 + 4 x 115 = 500 W are more than the limit of a unit.
        let many = Job::new(&LoggedJob { units: units(1), gpus: 0, mics: 4, ..logged() }, 0);
        assert_eq!(many.watts(), 400);
    }

    #[test]
    fn missing_values_have_defaults() {
        let empty = LoggedJob { units: units(1), cores: 0, gpus: 0, memory_kib: 0, requested_s: 0, ..logged() };
        let job = Job::new(&empty, 0);
        // 204,800 KiB are 200 MiB. A run of 100 s is the request of the next full minute.
        assert_eq!((job.total, job.requested_s, job.run_s), (Resources([4, 0, 0, 200]), 120, 100));
        // A run of whole minutes gets one more, and a run of 0 s lasts 1 s.
        assert_eq!(Job::new(&LoggedJob { end_s: 2_120, ..empty.clone() }, 0).requested_s, 180);
        assert_eq!(Job::new(&LoggedJob { end_s: 2_000, ..empty.clone() }, 0).run_s, 1);
        // A run longer than its request ends with the request.
        assert_eq!(Job::new(&LoggedJob { requested_s: 60, ..logged() }, 0).run_s, 60);
    }
}
