//! Durations of simulations: a task tells its own, and the end of a sweep says how it scaled.

use std::time::Duration;

use limo_model::Span;

const BEFORE: &str = "lsim: simulated in ";

/// Formats the message of one simulation.
pub fn duration_line(took: Duration) -> String {
    format!("{BEFORE}{} ms", took.as_millis())
}

/// Finds that message in the output of a task.
pub fn read_duration(text: &str) -> Option<Duration> {
    let ms = text.lines().rev().find_map(|line| line.strip_prefix(BEFORE)?.strip_suffix(" ms")?.parse().ok())?;
    Some(Duration::from_millis(ms))
}

/// Says how `count` simulations scaled, which `took` this long in sum and `elapsed` for all, with `workers` at once at
/// most.
pub fn scaled(count: usize, took: Duration, elapsed: Duration, workers: usize) -> String {
    let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let tenths = (10 * ms(took)).checked_div(ms(elapsed)).unwrap_or(0);
    let [took, elapsed] = [took, elapsed].map(|duration| Span::from_ms(ms(duration)));
    let (whole, tenth, share) = (tenths / 10, tenths % 10, tenths * 10 / i64::try_from(workers.max(1)).unwrap_or(1));
    format!(
        "{count} simulations of {took} in sum took {elapsed}: {whole}.{tenth} at once of at most {workers} ({share} %)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_found_among_other_lines() {
        let text = format!("lsim: note: x\n{}\nlast\n", duration_line(Duration::from_millis(1_250)));
        assert_eq!((read_duration(&text), read_duration("x\n")), (Some(Duration::from_millis(1_250)), None));
    }

    #[test]
    fn speed_up_is_work_by_time() {
        let (took, elapsed) = (Duration::from_secs(150), Duration::from_secs(40));
        let line = "12 simulations of 2min30s in sum took 40s: 3.7 at once of at most 4 (92 %)";
        assert_eq!(scaled(12, took, elapsed, 4), line);
        assert_eq!(scaled(0, Duration::ZERO, Duration::ZERO, 0).lines().count(), 1);
    }
}
