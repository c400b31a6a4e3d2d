//! Makes a workload from the records of a file by [`Rules`], and notes omitted and repaired jobs.

use std::path::Path;

use limo_model::Span;

use super::error::SwfError;
use super::reader::Reader;
use super::record::{Field, Record};
use super::sort;
use crate::compact::CompactSpan;
use crate::input;
use crate::workload::{Job, Workload};

/// Source of a job's processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Processors {
    /// Field 5, the allocated processors, or field 8 if that is -1 or 0.
    #[default]
    Allocated,
    /// Field 8, the requested processors, or field 5 if that is -1 or 0.
    Requested,
}

/// Conversion of records to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// Jobs are sorted by submission, then by number, then as in the file. A job without a run time or processors is
    /// omitted, but a run time of zero is kept. A requested time that is not positive counts as none.
    #[default]
    Plain,
    /// Like the inputs of energy-budget-2017. Lines with a number such as `7e+05` and runs of zero are omitted. The
    /// walltime is max(2 x run, requested), with the run of the file; then the run is floored to even seconds (1
    /// stays 1). Processors are always field 5, regardless of [`Processors`]. Jobs are sorted by number and then by
    /// submission with an unstable sort. Its order of ties affects the results.
    Compat2017,
}

/// Options for reading a file; the default is [`Processors::Allocated`] and [`Rules::Plain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Field for the processors of a job.
    pub processors: Processors,
    /// Treatment of quirks in the file.
    pub rules: Rules,
}

impl Options {
    /// Rules for energy-budget-2017's inputs.
    pub const COMPAT_2017: Self = Self { processors: Processors::Allocated, rules: Rules::Compat2017 };
}

/// Reads a workload file, plain or gzipped.
///
/// # Errors
/// [`SwfError`] for the first invalid line, a negative submit time, or a file without jobs.
pub fn load(path: &Path, options: Options) -> Result<Workload, SwfError> {
    load_from(Reader::open(path)?, options)
}

/// Reads from a reader at its first record.
///
/// # Errors
/// The same as for [`load`].
pub fn load_from(mut reader: Reader, options: Options) -> Result<Workload, SwfError> {
    let mut workload =
        Workload { start: reader.header().start(), processors: reader.header().processors(), ..Workload::default() };
    let mut counts = Counts::default();
    let mut latest = (Span::ZERO, i64::MIN);
    while let Some(record) = reader.next() {
        let record = record?;
        counts.lines += 1;
        let Some(job) = job(&record, options, &mut counts).map_err(|field| range(&reader, &record, field))? else {
            continue;
        };
        counts.out_of_order += u64::from((job.submit, job.number) < latest);
        latest = latest.max((job.submit, job.number));
        workload.jobs.push(job);
    }
    if workload.jobs.is_empty() {
        let (lines, dropped) = (counts.lines, counts.dropped());
        return Err(SwfError::NoJobs { file: reader.file().to_owned(), lines, dropped });
    }
    order(&mut workload.jobs, options.rules, counts.out_of_order > 0);
    workload.notes = counts.notes(options.rules);
    Ok(workload)
}

/// Makes the error for a number outside its field's range.
fn range(reader: &Reader, record: &Record, field: Field) -> SwfError {
    let limits = match field {
        Field::Submit => "0 or later",
        Field::User | Field::Application | Field::Queue => "at most 2147483647",
        _ => "at most 4294967295",
    };
    let value = limo_model::decimal::text(record.thousandths(field).into(), 3);
    let value = input::shown(value.as_bytes());
    SwfError::OutOfRange { file: reader.file().to_owned(), line: reader.line(), field, value, limits }
}

fn order(jobs: &mut Vec<Job>, rules: Rules, out_of_order: bool) {
    match rules {
        // This stable sort moves small keys, and each job once. A key is one number, which compares in one step.
        Rules::Plain if out_of_order => {
            jobs.sort_by_cached_key(|job| (i128::from(job.submit.ms()) << 64) + i128::from(job.number));
        }
        Rules::Plain => {}
        Rules::Compat2017 => {
            jobs.sort_by_key(|job| job.number);
            let mut keys: Vec<(i64, usize)> = jobs.iter().enumerate().map(|(at, job)| (job.submit.ms(), at)).collect();
            sort::introsort(&mut keys, |a, b| a.0 < b.0);
            *jobs = keys.into_iter().map(|(_, at)| jobs[at]).collect();
        }
    }
}

/// Converts a record; `None` if the rules omit it, or the field whose value is out of range.
fn job(record: &Record, options: Options, counts: &mut Counts) -> Result<Option<Job>, Field> {
    let compat = options.rules == Rules::Compat2017;
    let submit = record.span(Field::Submit).ok_or(Field::Submit)?;
    if compat && record.exponent {
        counts.exponents += 1;
        return Ok(None);
    }
    let Some(run) = record.span(Field::Run) else {
        counts.no_run += 1;
        return Ok(None);
    };
    let Some(processors) = processors(record, options)? else {
        counts.no_processors += 1;
        return Ok(None);
    };
    counts.zero_runs += u64::from(run == Span::ZERO);
    if compat && run == Span::ZERO {
        return Ok(None);
    }
    let asked = record.span(Field::RequestedTime).filter(|asked| *asked > Span::ZERO);
    let (run, walltime) = if compat { even(run, asked) } else { (run, asked) };
    counts.no_walltime += u64::from(walltime.is_none());
    counts.late += u64::from(walltime.is_some_and(|walltime| run > walltime));
    Ok(Some(Job {
        number: record.thousandths(Field::Number) / 1_000,
        submit,
        wait: record.span(Field::Wait).map(CompactSpan::of),
        run,
        walltime: walltime.map(CompactSpan::of),
        processors,
        user: small(record, Field::User)?,
        application: small(record, Field::Application)?,
        queue: small(record, Field::Queue)?,
        treatment: crate::workload::Treatment::default(),
        chunks: None,
        moldable: None,
        removed: None,
        bytes: None,
    }))
}

/// Returns run and walltime as in energy-budget-2017.
fn even(run: Span, asked: Option<Span>) -> (Span, Option<Span>) {
    let twice = run + run;
    let floored = Span::from_ms(run.ms() / 2_000 * 2_000).max(Span::from_secs(1));
    (floored, Some(asked.map_or(twice, |asked| asked.max(twice))))
}

fn processors(record: &Record, options: Options) -> Result<Option<u32>, Field> {
    let (first, second) = match options.processors {
        _ if options.rules == Rules::Compat2017 => (Field::Allocated, Field::Allocated),
        Processors::Allocated => (Field::Allocated, Field::RequestedProcessors),
        Processors::Requested => (Field::RequestedProcessors, Field::Allocated),
    };
    for field in [first, second] {
        if let Some(count) = record.count(field).filter(|count| *count > 0) {
            return u32::try_from(count).map(Some).map_err(|_| field);
        }
    }
    Ok(None)
}

fn small(record: &Record, field: Field) -> Result<i32, Field> {
    i32::try_from(record.thousandths(field) / 1_000).map_err(|_| field)
}

/// Counts for notes.
#[derive(Debug, Default)]
struct Counts {
    lines: u64,
    out_of_order: u64,
    exponents: u64,
    no_run: u64,
    no_processors: u64,
    zero_runs: u64,
    no_walltime: u64,
    late: u64,
}

impl Counts {
    /// Returns the number of omitted lines.
    fn dropped(&self) -> u64 {
        self.exponents + self.no_run + self.no_processors + self.zero_runs
    }

    fn notes(&self, rules: Rules) -> Vec<String> {
        let zero = match rules {
            Rules::Plain => "jobs ran for 0 s: kept",
            Rules::Compat2017 => "jobs ran for 0 s: left out",
        };
        let order = match rules {
            Rules::Plain => "jobs were not in order of submission: sorted, equal ones by their numbers",
            Rules::Compat2017 => "jobs were not in order of submission: sorted as in energy-budget-2017",
        };
        let all = [
            (self.no_run, "jobs have no run time (field 4): left out"),
            (self.no_processors, "jobs have no processors (fields 5 and 8): left out"),
            (self.exponents, "lines have a number with an exponent: left out, as energy-budget-2017 did"),
            (self.zero_runs, zero),
            (self.no_walltime, "jobs have no requested time (field 9): no limit on their run"),
            (self.late, "jobs ran longer than their requested time: ended at it"),
            (self.out_of_order, order),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn read(text: &str, options: Options) -> Result<Workload, String> {
        let reader =
            Reader::new("t.swf", Cursor::new(text.to_owned().into_bytes())).map_err(|error| error.to_string())?;
        load_from(reader, options).map_err(|error| error.to_string())
    }

    /// Formats a line with the fields that matter here: number, submit, run, allocated, requested, requested time.
    fn line(number: &str, submit: &str, run: &str, processors: (&str, &str), asked: &str) -> String {
        let (got, wanted) = processors;
        format!("{number} {submit} 5 {run} {got} -1 -1 {wanted} {asked} -1 1 7 1 9 1 1 -1 -1\n")
    }

    #[test]
    fn quirks_of_the_archive() {
        let text = [
            "; MaxProcs: 100\n; UnixStartTime: 843480031\n".to_owned(),
            line("1", "10", "5", ("2", "4"), "20"),
            line("2", "0.1", "0", ("-1", "4"), "-1"),
            line("3", "10", "30", ("0", "3"), "20"),
            line("4", "11", "-1", ("2", "2"), "20"),
            line("7e+05", "12", "5", ("-1", "-1"), "20"),
        ]
        .concat();
        let workload = read(&text, Options::default()).expect("a workload");
        let jobs: Vec<_> = workload.jobs.iter().map(|job| (job.number, job.submit.ms(), job.processors)).collect();
        assert_eq!(jobs, [(2, 100, 4), (1, 10_000, 2), (3, 10_000, 3)]);
        assert_eq!(workload.jobs[0].walltime, None);
        assert_eq!((workload.jobs[1].user, workload.jobs[1].application), (7, 9));
        assert_eq!(workload.jobs[1].wait, Some(CompactSpan::of(Span::from_secs(5))));
        assert_eq!(
            workload.notes,
            [
                "1 jobs have no run time (field 4): left out",
                "1 jobs have no processors (fields 5 and 8): left out",
                "1 jobs ran for 0 s: kept",
                "1 jobs have no requested time (field 9): no limit on their run",
                "1 jobs ran longer than their requested time: ended at it",
                "1 jobs were not in order of submission: sorted, equal ones by their numbers",
            ]
        );
        let requested = Options { processors: Processors::Requested, ..Options::default() };
        assert_eq!(read(&text, requested).expect("a workload").jobs[1].processors, 4);
    }

    #[test]
    fn rules_of_2017() {
        let text = [
            line("1", "0", "77011", ("8", "16"), "100"),
            line("2", "0", "1", ("8", "16"), "100"),
            line("3", "0", "0", ("8", "16"), "100"),
            line("4", "5e+05", "9", ("8", "16"), "100"),
            line("5", "0", "3", ("-1", "16"), "100"),
        ]
        .concat();
        let workload = read(&text, Options::COMPAT_2017).expect("a workload");
        let jobs: Vec<_> = workload
            .jobs
            .iter()
            .map(|job| (job.number, job.run.ms(), job.walltime.map(|span| span.span().ms()), job.processors))
            .collect();
        assert_eq!(jobs, [(1, 77_010_000, Some(154_022_000), 8), (2, 1_000, Some(100_000), 8)]);
    }

    #[test]
    fn refusals() {
        let check =
            |text: &str, expected: &str| assert_eq!(read(text, Options::default()).expect_err("refused"), expected);
        check(
            &line("1", "-1", "1", ("1", "1"), "1"),
            "t.swf:1: field 2 (submit time) is `-1`: that is out of range (0 or later)",
        );
        check(
            &line("1", "0", "1", ("5e9", "1"), "1"),
            "t.swf:1: field 5 (allocated processors) is `5000000000`: that is out of range (at most 4294967295)",
        );
        check(
            &line("1", "0", "-1", ("1", "1"), "1"),
            "t.swf: the file has no usable job (1 lines with jobs, 1 left out)",
        );
        check("", "t.swf: the file has no usable job (0 lines with jobs, 0 left out)");
    }
}
