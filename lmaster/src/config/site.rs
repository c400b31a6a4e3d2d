//! Settings of the programs of the site.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use limo_model::Span;
use limo_proto::safe_program;

use crate::hook::SubmitHook;
use crate::messenger::{NotifySettings, Receiving};

const HOOK_TIME: Span = Span::from_secs(10);
const NOTIFY_TIME: Span = Span::from_secs(30);
const LONGEST: Span = Span::from_secs(60);

/// Returns the time limit of a program of the site.
fn time_limit(key: &str, given: Option<Span>, default: Span) -> Result<Span> {
    let limit = given.unwrap_or(default);
    ensure!(limit > Span::ZERO && limit <= LONGEST, "{key} is {limit}: it must be above 0s and at most {LONGEST}");
    Ok(limit)
}

/// Returns the submit hook.
///
/// # Errors
/// If the path is relative, other users can change the file, or the time limit is out of range.
pub fn submit_hook(path: Option<PathBuf>, limit: Option<Span>) -> Result<Option<SubmitHook>> {
    let time_limit = time_limit("submit_hook_time_limit", limit, HOOK_TIME)?;
    let Some(path) = path else { return Ok(None) };
    ensure!(
        path.is_absolute(),
        "submit_hook is `{}`: it must be an absolute path, such as `/etc/limo/submit-hook`",
        path.display()
    );
    safe_program(&path).context("submit_hook cannot be used")?;
    Ok(Some(SubmitHook { path, time_limit }))
}

/// Returns the receiver of events of jobs.
///
/// # Errors
/// If it is empty, or a time limit is out of range.
pub fn notify(to: Option<String>, limit: Option<Span>, all: Option<bool>) -> Result<Option<NotifySettings>> {
    let time_limit = time_limit("notify_time_limit", limit, NOTIFY_TIME)?;
    let Some(to) = to else { return Ok(None) };
    ensure!(
        !to.trim().is_empty(),
        "notify is empty: it is a command such as `/etc/limo/notify`, or an address such as `https://chat.example.org/limo`"
    );
    let is_url = to.starts_with("http://") || to.starts_with("https://");
    let to = if is_url { Receiving::Url(to) } else { Receiving::Command(to) };
    Ok(Some(NotifySettings { to, time_limit, all: all.unwrap_or(false) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_refused() {
        let check = |found: Result<bool>, expected: &str| {
            let error = format!("{:#}", found.expect_err(expected));
            assert!(error.starts_with(expected), "{error}");
        };
        let hook = |path: &str, limit: Option<Span>| submit_hook(Some(path.into()), limit).map(|hook| hook.is_some());
        check(hook("hook", None), "submit_hook is `hook`: it must be an absolute path");
        check(hook("/nowhere/hook", None), "submit_hook cannot be used: cannot find /nowhere/hook");
        check(hook("/bin/sh", Some(Span::ZERO)), "submit_hook_time_limit is 0s: it must be above 0s and at most 1min");
        assert!(hook("/bin/sh", None).expect("a program"));
        let told = |to: &str, limit| notify(Some(to.into()), limit, None);
        check(told(" ", None).map(|_| true), "notify is empty");
        check(told("true", Some(Span::from_secs(61))).map(|_| true), "notify_time_limit is 1min1s");
        let url = told("https://chat.example.org/limo", None).expect("an address").expect("a receiver");
        assert_eq!((url.to, url.all), (Receiving::Url("https://chat.example.org/limo".into()), false));
    }
}
