//! The simulating machine: time and memory.

use limo_model::Span;

/// Returns a duration in milliseconds.
pub fn span_of(elapsed: std::time::Duration) -> Span {
    Span::from_ms(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the largest resident set of this process so far, in bytes; 0 if the kernel does not report it.
pub fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
