//! All numbers of the recipe. Those that htc-sim-2015 gives are marked \[paper\]; the others are ours. None is fitted to
//! results of a simulation.

/// \[paper\] Section IV-C and Fig. 4: logins in 2010.
pub(super) const LOGINS: usize = 1_229_820;
/// \[paper\] Section IV-D: jobs in 2010. The mean of 1,454 a day that is printed there does not belong to this total.
pub(super) const JOBS: u32 = 561_851;

/// Midnight of 1 January 2010 in seconds since 1970. The clock of the pool is UTC in all of the year.
pub(super) const START: i64 = 1_262_304_000;
/// Days of 2010.
pub(super) const DAYS: usize = 365;
/// 1 January 2010 was a Friday; Monday is 0.
pub(super) const FIRST_WEEKDAY: usize = 4;

/// Sizes of the groups: \[paper\] 35 groups with some 1,400 computers. The sizes are ours.
pub(super) const SIZES: [u32; 35] = [
    120, 100, 80, 70, 60, 60, 60, 60, 50, 50, 50, 50, 40, 40, 40, 40, 40, 30, 30, 30, 30, 30, 20, 20, 20, 20, 20, 20,
    20, 20, 20, 20, 20, 10, 10,
];
/// The smallest groups are Legacy, and the next ones High End; the others are Normal.
pub(super) const LEGACY: usize = 5;
pub(super) const HIGH_END: usize = 6;
/// \[paper\] Table I: cores, and milliwatts while active, idle and asleep.
pub(super) const NORMAL: (u32, [i64; 3]) = (2, [57_000, 40_000, 2_000]);
pub(super) const HIGH: (u32, [i64; 3]) = (4, [114_000, 67_000, 3_000]);
/// \[paper\] Table I: from 100 to 180 W active and 50 to 80 W idle. The steps from group to group are ours.
pub(super) const LEGACY_CORES: u32 = 2;
pub(super) const LEGACY_ACTIVE: [i64; LEGACY] = [100_000, 120_000, 140_000, 160_000, 180_000];
pub(super) const LEGACY_IDLE: [i64; LEGACY] = [50_000, 57_500, 65_000, 72_500, 80_000];
pub(super) const LEGACY_SLEEP: i64 = 4_000;
/// \[paper\] Section IV-A: computers reboot between 03:00 and 05:00 each day.
pub(super) const REBOOT: &str = "03:00-05:00";

/// Number of the largest groups that are open for 24 h, and of the next ones that are open in the evening and on
/// Saturday. \[paper\] Section IV-A has both kinds, without numbers.
pub(super) const ALL_DAY: usize = 12;
pub(super) const EVENING: usize = 8;
/// Hours of opening.
pub(super) const OPENS: usize = 8;
pub(super) const OFFICE_CLOSES: usize = 18;
pub(super) const EVENING_CLOSES: usize = 22;

/// Weights of the hours of a day.
pub(super) const HOURS: [f64; 24] = [
    1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 8.0, 30.0, 60.0, 80.0, 90.0, 85.0, 90.0, 95.0, 90.0, 80.0, 60.0, 35.0, 25.0,
    18.0, 12.0, 6.0, 3.0,
];
/// Weights of the days of a week, from Monday. \[paper\] Fig. 4 shows quieter weekends.
pub(super) const WEEKDAYS: [f64; 7] = [1.0, 1.0, 1.0, 1.0, 0.85, 0.25, 0.25];
/// First and last days of the terms, as month and day. \[paper\] Fig. 4 shows terms, and breaks at Easter and in summer.
pub(super) const TERMS: [[(usize, usize); 2]; 3] = [[(1, 11), (3, 19)], [(4, 19), (6, 18)], [(10, 4), (12, 17)]];
/// Weights of the seasons.
pub(super) const TERM: f64 = 1.0;
pub(super) const BREAK: f64 = 0.25;
pub(super) const CHRISTMAS: f64 = 0.02;
pub(super) const BANK_HOLIDAY: f64 = 0.1;
/// Days of Christmas at both ends of the year, both included.
pub(super) const CHRISTMAS_DAYS: [[(usize, usize); 2]; 2] = [[(1, 1), (1, 3)], [(12, 24), (12, 31)]];
/// Bank holidays of England in 2010 outside Christmas.
pub(super) const BANK_HOLIDAYS: [(usize, usize); 5] = [(4, 2), (4, 5), (5, 3), (5, 31), (8, 30)];

/// Share of the logins that come as classes, in percent.
pub(super) const CLASS_PERCENT: usize = 20;
/// A class comes within this time after the full hour, in milliseconds.
pub(super) const CLASS_ARRIVAL_MS: f64 = 600_000.0;
/// Share of a group that a class takes.
pub(super) const CLASS_SHARE: [f64; 2] = [0.4, 0.9];
/// Duration of a class, in milliseconds.
pub(super) const CLASS_MS: [f64; 2] = [45.0 * 60_000.0, 55.0 * 60_000.0];
/// Duration of other sessions: lognormal, cut at the longest and at the closing of the group.
pub(super) const SESSION_MEDIAN_MS: f64 = 25.0 * 60_000.0;
pub(super) const SESSION_SIGMA: f64 = 1.1;
pub(super) const SESSION_MAX_MS: f64 = 12.0 * 3_600_000.0;
/// Shortest session. A login is never so near to the closing that it would be shorter.
pub(super) const SESSION_MIN_MS: i64 = 10_000;
/// Time between two sessions on a computer.
pub(super) const GAP_MS: i64 = 15_000;
/// Users of the computers.
pub(super) const OWNERS: u32 = 20_000;

/// Share of the lines of a raw dump that occur twice, and half of these with a later time.
pub(super) const DUPLICATES: f64 = 0.15;
pub(super) const LATER: f64 = 0.5;
/// \[paper\] Section IV-C: some milliseconds later. The most is ours.
pub(super) const LATER_MS: u32 = 900;
/// Further logins without a logout. \[paper\] Section IV-C: less than 0.1 % of the trace.
pub(super) const CRASHES: usize = 1_229;
/// Time of such a login after the session before it, less than the time between sessions.
pub(super) const CRASH_MS: i64 = 7_000;

/// Weights of days for jobs: lognormal and autoregressive. \[paper\] Fig. 5 shows no pattern.
pub(super) const DAY_RHO: f64 = 0.5;
pub(super) const DAY_SIGMA: f64 = 1.2;
/// Sizes of batches: Zipf, up to the largest.
pub(super) const BATCH_EXPONENT: f64 = 1.6;
pub(super) const BATCH_MAX: usize = 5_000;
/// Users of jobs: Zipf.
pub(super) const USERS: usize = 60;
pub(super) const USER_EXPONENT: f64 = 1.1;
/// Durations of jobs: lognormal, in seconds, cut at seven days.
pub(super) const JOB_MEDIAN_S: f64 = 20.0 * 60.0;
pub(super) const JOB_SIGMA: f64 = 1.6;
pub(super) const JOB_MAX_S: f64 = 7.0 * 86_400.0;
/// Share of the jobs that never end and are removed, and the time until then: lognormal, in seconds.
pub(super) const BAD: f64 = 0.05;
pub(super) const REMOVAL_MEDIAN_S: f64 = 12.0 * 3_600.0;
pub(super) const REMOVAL_SIGMA: f64 = 1.0;
/// Bytes in and out of a job: lognormal, cut.
pub(super) const BYTES_IN_MEDIAN: f64 = 5e6;
pub(super) const BYTES_OUT_MEDIAN: f64 = 1e6;
pub(super) const BYTES_SIGMA: f64 = 1.5;
pub(super) const BYTES_MAX: f64 = 2e9;

/// Largest factor for the number of jobs: 100 million.
pub(super) const MAX_SCALE: f64 = 178.0;
