//! Options for the place of a job in the queue.

use limo_model::PRIORITY_LIMIT;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Queue")]
pub struct PriorityArgs {
    /// Priority; higher goes first, -10000 to 10000 [default: 0]; above 0 for operators only
    #[arg(long, value_name = "N", value_parser = priority, allow_hyphen_values = true, hide = true)]
    pub priority: Option<i32>,
    /// Lower the priority by N, so that other jobs go first [without N: 100]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "100")]
    #[arg(value_parser = nice, conflicts_with = "priority", hide = true)]
    pub nice: Option<i32>,
}

impl PriorityArgs {
    pub fn priority(&self) -> i32 {
        self.priority.or(self.nice.map(|nice| -nice)).unwrap_or(0)
    }
}

fn within(text: &str, what: &str) -> Result<i32, String> {
    let number = text.parse::<i32>().ok().filter(|number| (-PRIORITY_LIMIT..=PRIORITY_LIMIT).contains(number));
    number.ok_or_else(|| {
        format!("`{text}` is not a {what}: write a whole number from -{PRIORITY_LIMIT} to {PRIORITY_LIMIT}")
    })
}

fn priority(text: &str) -> Result<i32, String> {
    within(text, "priority")
}

fn nice(text: &str) -> Result<i32, String> {
    within(text, "number to lower a priority by")
}

#[cfg(test)]
mod tests {
    use crate::args::Args;
    use clap::Parser;

    fn check(options: &[&str], expected: Result<i32, &str>) {
        let line = [&["lrun"], options, &["true"]].concat();
        match (Args::try_parse_from(line), expected) {
            (Ok(args), Ok(priority)) => {
                assert_eq!((args.priority.priority(), args.command.len()), (priority, 1), "{options:?}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{options:?}: {got:?}"),
        }
    }

    #[test]
    fn priority_and_nice_are_numbers_within_limits() {
        check(&[], Ok(0));
        check(&["--priority", "-5"], Ok(-5));
        check(&["--priority=10000"], Ok(10_000));
        check(&["--nice"], Ok(-100));
        check(&["--nice=20"], Ok(-20));
        check(&["--nice=-20"], Ok(20));
        check(&["--priority", "10001"], Err("`10001` is not a priority: write a whole number from -10000 to 10000"));
        check(&["--priority", "high"], Err("`high` is not a priority"));
        check(&["--nice=1.5"], Err("`1.5` is not a number to lower a priority by"));
        check(&["--nice=1", "--priority=1"], Err("cannot be used with"));
    }
}
