//! Limits on a user's share of the master's memory and time. Defines the numbers; the code that counts enforces them.

/// Factor by which an operator's limits are larger. Limits on one request are the same for all users.
const OPERATORS: u32 = 10;

/// Limits for each user. Sizes are in encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most encoded bytes of unread answers.
    pub answers: usize,
    /// Most bytes of unread output and input of jobs; each may have half of this.
    pub stdio: usize,
    /// Most bytes of messages that are being read.
    pub reading: usize,
    /// Most bytes of requests that wait for the answers to earlier ones.
    pub requests: usize,
    /// Most unfinished jobs. An array counts as one.
    pub jobs: u32,
    /// Most memory of the launches of these jobs; each distinct launch counts once.
    pub launches: usize,
    /// Most memory of the launches of all users together.
    pub all_launches: usize,
    /// Largest size of these jobs in the journal, where each has its own launch.
    pub submissions: usize,
    /// Most job numbers in one wait or one change.
    pub wait_numbers: u32,
    /// Most job numbers in all open waits of a user.
    pub open_waits: u32,
    /// Most selectors in one request.
    pub selectors: u32,
    /// Most expensive queries that run at a time.
    pub queries_running: u32,
    /// Most expensive queries that wait.
    pub queries_queued: u32,
    /// Most log lines of one kind per minute.
    pub log_lines: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answers: 16 << 20,
            stdio: 64 << 20,
            reading: 16 << 20,
            requests: 8 << 20,
            jobs: 100_000,
            launches: 64 << 20,
            all_launches: 256 << 20,
            submissions: 1 << 30,
            wait_numbers: 10_000,
            open_waits: 100_000,
            selectors: 1_000,
            queries_running: 1,
            queries_queued: 4,
            log_lines: 10,
        }
    }
}

impl Limits {
    /// Returns the limits of a user, which are larger for an operator.
    pub fn of(self, operator: bool) -> Self {
        if !operator {
            return self;
        }
        let count = |count: u32| count.saturating_mul(OPERATORS);
        let size = |size: usize| size.saturating_mul(OPERATORS as usize);
        Self {
            answers: size(self.answers),
            stdio: size(self.stdio),
            reading: size(self.reading),
            requests: size(self.requests),
            jobs: count(self.jobs),
            launches: size(self.launches),
            submissions: size(self.submissions),
            open_waits: count(self.open_waits),
            queries_running: count(self.queries_running),
            queries_queued: count(self.queries_queued),
            ..self
        }
    }
}
