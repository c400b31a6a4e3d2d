//! Features of a job that are known at its submission, and the measurements of a finished one. Names are kept as hashes
//! of 32 bits, so neither rows nor models tell them, and their size does not depend on what users write.

use limo_model::{Digest, Power, Request, Span, Time, application};

/// A job as submitted. Texts may be empty, which means unknown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Submission<'a> {
    /// User of the job.
    pub user: &'a str,
    /// Queue of the job.
    pub queue: &'a str,
    /// Application, as in keys of profiles.
    pub application: &'a str,
    /// Name of the job; only its stem counts, so that `run-17` and `run-18` are equal.
    pub name: &'a str,
    /// True for a task of an array.
    pub array: bool,
    /// Requested time; `None` if the job has no limit.
    pub requested: Option<Span>,
    /// Number of nodes.
    pub nodes: u32,
    /// Cores of the whole job.
    pub cores: u32,
    /// Accelerators of the whole job.
    pub accelerators: u32,
    /// Type of the units that the job takes: of its accelerators, else of its CPUs.
    pub hardware: &'a str,
    /// Memory of the whole job in MiB.
    pub memory_mib: u64,
    /// Time of the submission; only the hour of its day counts.
    pub submitted: Time,
}

/// Features of a job: numbers only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Hash of the user's name.
    pub user: u32,
    /// Hash of the queue's name.
    pub queue: u32,
    /// Hash of the application's name.
    pub application: u32,
    /// Hash of the stem of the job's name.
    pub stem: u32,
    /// True for a task of an array.
    pub array: bool,
    /// Requested time in seconds; 0 for none.
    pub requested_s: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Cores of the whole job.
    pub cores: u32,
    /// Accelerators of the whole job.
    pub accelerators: u32,
    /// Hash of the type of the units.
    pub hardware: u32,
    /// Memory of the whole job in MiB.
    pub memory_mib: u32,
    /// Hour of the day of the submission in UTC, 0 to 23.
    pub hour: u8,
}

const HOUR_MS: i64 = 3_600_000;

/// Returns the hash of a name; 0 for an empty one.
fn hashed(name: &str) -> u32 {
    if name.is_empty() {
        return 0;
    }
    folded(Digest::new().with(name.as_bytes()).value())
}

/// Mixes 64 bits into 32.
fn folded(digest: u64) -> u32 {
    // Both halves count: the lower bits of FNV-1a depend on the lower bits of all bytes only.
    (digest ^ (digest >> 32)) as u32
}

/// Returns a hash of these numbers.
pub(super) fn mixed(numbers: &[u32]) -> u32 {
    let digest = numbers.iter().fold(Digest::new(), |digest, number| digest.with(&number.to_le_bytes()));
    folded(digest.value())
}

/// Returns the name up to its last letter: without the counter at its end.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| !c.is_alphabetic())
}

impl Features {
    /// Returns what is known of a job when it is submitted, for one chunk on a unit: the unit's type, its cores that the
    /// chunk takes, and if it is an accelerator. Like profiles, predictions are of one chunk: jobs on several nodes have the
    /// same one on each. `is_task` is true for a task of an array.
    pub fn of_chunk(request: &Request, on: (&str, u32, bool), (is_task, submitted): (bool, Time)) -> Self {
        let (hardware, cores, is_accelerator) = on;
        let name = request.application.as_str();
        Self::of(&Submission {
            user: &request.user,
            queue: request.queue.as_deref().unwrap_or_default(),
            application: if name == application::UNKNOWN { "" } else { name },
            name: &request.name,
            array: is_task,
            requested: request.time_limit,
            nodes: 1,
            cores,
            accelerators: u32::from(is_accelerator),
            hardware,
            memory_mib: request.memory.bytes() >> 20,
            submitted,
        })
    }

    /// Returns the features of a submission. Larger numbers than the fields hold count as the largest ones.
    pub fn of(job: &Submission<'_>) -> Self {
        let seconds = |span: Span| u32::try_from(span.ms().max(0) / 1_000).unwrap_or(u32::MAX);
        Self {
            user: hashed(job.user),
            queue: hashed(job.queue),
            application: hashed(job.application),
            stem: hashed(stem(job.name)),
            array: job.array,
            requested_s: job.requested.map_or(0, seconds),
            nodes: job.nodes,
            cores: job.cores,
            accelerators: job.accelerators,
            hardware: hashed(job.hardware),
            memory_mib: u32::try_from(job.memory_mib).unwrap_or(u32::MAX),
            // A remainder of 24 fits.
            hour: job.submitted.unix_ms().div_euclid(HOUR_MS).rem_euclid(24) as u8,
        }
    }

    /// Returns a hash of the nodes, cores, accelerators and hardware.
    pub(super) fn shape(&self) -> u32 {
        mixed(&[self.nodes, self.cores, self.accelerators, self.hardware])
    }

    /// Returns the number by which draws are divided: that of the cores, at least 1.
    pub(super) fn scale(&self) -> f64 {
        f64::from(self.cores.max(1))
    }
}

/// Features and measurements of a finished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedJob {
    /// Features at the submission.
    pub features: Features,
    /// Mean draw.
    pub mean: Power,
    /// Highest draw; the mean if it is unknown.
    pub peak: Power,
    /// Draw by the nameplate of its cores, which is expected without a profile or a prediction; zero if unknown.
    pub nameplate: Power,
    /// Time from the start of the command to its end.
    pub duration: Span,
    /// Times of the submission and of the end. Only their order counts: what was known of others when the job was submitted.
    pub submitted: Time,
    /// See [`FinishedJob::submitted`].
    pub ended: Time,
}

/// Values that are learned, as natural logarithms: errors of 10 % count the same for small and large jobs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Target {
    /// Logarithm of the watts for each core.
    pub watts: f32,
    /// Logarithm of the ratio of the highest to the mean draw; at least 0.
    pub peak: f32,
    /// Logarithm of the seconds.
    pub duration: f32,
}

/// Smaller draws, in watts, and durations, in seconds, count as these: what cannot be measured must not count as a tiny part.
const LEAST_W: f64 = 0.5;
const LEAST_S: f64 = 0.1;

impl Target {
    pub fn of(row: &FinishedJob) -> Self {
        let watts = (row.mean.mw() as f64 / 1e3).max(LEAST_W);
        let peak = (row.peak.mw() as f64 / 1e3).max(watts);
        let seconds = (row.duration.ms() as f64 / 1e3).max(LEAST_S);
        Self {
            watts: libm::log(watts / row.features.scale()) as f32,
            peak: libm::log(peak / watts) as f32,
            duration: libm::log(seconds) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_at_the_end_of_names_do_not_count() {
        let of = |name| Features::of(&Submission { name, ..Submission::default() }).stem;
        assert_eq!(of("run-17"), of("run-18"));
        assert_eq!(of("17"), of(""));
        assert_ne!(of("run-17"), of("ruin-17"));
    }

    #[test]
    fn the_queue_of_a_request_counts() {
        let of = |queue: Option<&str>| {
            let request = Request { queue: queue.map(str::to_owned), ..Request::one_core("cg") };
            Features::of_chunk(&request, ("cpu", 1, false), (false, Time::from_unix_ms(0)))
        };
        assert_eq!(of(None).queue, hashed(""));
        assert_eq!(of(Some("short")), Features { queue: hashed("short"), ..of(None) });
    }

    #[test]
    fn huge_requests_saturate() {
        let job = Submission {
            requested: Some(Span::from_ms(i64::MAX)),
            memory_mib: u64::MAX,
            submitted: Time::from_unix_ms(-1),
            ..Submission::default()
        };
        let features = Features::of(&job);
        assert_eq!((features.requested_s, features.memory_mib, features.hour), (u32::MAX, u32::MAX, 23));
        let negative = Submission { requested: Some(Span::from_ms(-5)), ..job };
        assert_eq!(Features::of(&negative).requested_s, 0);
    }

    #[test]
    fn targets_are_logarithms() {
        let features = Features { cores: 4, ..Features::default() };
        let row = |mean, peak, secs| FinishedJob {
            features,
            mean: Power::from_watts(mean),
            peak: Power::from_watts(peak),
            nameplate: Power::ZERO,
            duration: Span::from_secs(secs),
            submitted: Time::from_unix_ms(0),
            ended: Time::from_unix_ms(0),
        };
        let target = Target::of(&row(4, 8, 1));
        assert_eq!((target.watts, target.duration), (0.0, 0.0));
        assert!((f64::from(target.peak) - std::f64::consts::LN_2).abs() < 1e-6);
        // Nothing was measured.
        let target = Target::of(&row(0, 0, 0));
        assert!(target.watts.is_finite() && target.peak == 0.0 && target.duration.is_finite());
    }
}
