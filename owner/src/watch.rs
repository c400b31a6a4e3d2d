//! Watches all sources of a machine, each in a thread of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::OwnerError;
use crate::source::NamedSource;

/// Pause after an error of a source.
const PAUSE: Duration = Duration::from_secs(10);

/// Stack of a thread.
const STACK: usize = 256 * 1024;

/// News about the owner.
#[derive(Debug)]
pub enum News {
    /// True if the owner is there, by any source. Comes at each change, and once in the beginning.
    There(bool),
    /// A source does not answer. Its last answer holds until it does. Comes once for equal errors in a row.
    Failed {
        /// Name of the source.
        name: String,
        /// The reason.
        error: OwnerError,
    },
}

/// Answers of all sources.
struct Answers<F> {
    /// By source; `None` before the first answer.
    answers: Vec<Option<bool>>,
    told: Option<bool>,
    tell: F,
    /// True if nobody listens any longer.
    is_over: bool,
}

impl<F: FnMut(News) -> bool> Answers<F> {
    fn tell(&mut self, news: News) {
        self.is_over |= !(self.tell)(news);
    }

    /// Takes the answer of a source; tells whether the owner is there when all have answered, or one says so.
    fn answered(&mut self, index: usize, is_there: bool) {
        if let Some(answer) = self.answers.get_mut(index) {
            *answer = Some(is_there);
        }
        let any = self.answers.contains(&Some(true));
        if (any || !self.answers.contains(&None)) && self.told.replace(any) != Some(any) {
            self.tell(News::There(any));
        }
    }

    /// Handles the error of a source: before its first answer, the owner is away for it.
    fn failed(&mut self, index: usize, name: &str, error: Option<OwnerError>) {
        if let Some(error) = error {
            self.tell(News::Failed { name: name.to_owned(), error });
        }
        if self.answers.get(index) == Some(&None) {
            self.answered(index, false);
        }
    }
}

/// Watches the sources until `tell` returns false.
///
/// # Errors
/// If a thread cannot be started.
pub fn watch<F>(sources: Vec<NamedSource>, tell: F) -> Result<(), OwnerError>
where
    F: FnMut(News) -> bool + Send + 'static,
{
    let answers = Answers { answers: vec![None; sources.len()], told: None, tell, is_over: false };
    let answers = Arc::new(Mutex::new(answers));
    for (index, (name, mut source)) in sources.into_iter().enumerate() {
        let answers = Arc::clone(&answers);
        let thread = thread::Builder::new().name(format!("owner {index}")).stack_size(STACK);
        let serve = move || {
            let mut failure = None;
            loop {
                let answer = source.next();
                // The answers are complete after each change, so those after a panic can be used.
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                let has_failed = answer.is_err();
                match answer {
                    Ok(is_there) => {
                        failure = None;
                        answers.answered(index, is_there);
                    }
                    Err(error) => {
                        let is_new = failure.replace(error.to_string()) != Some(error.to_string());
                        answers.failed(index, &name, is_new.then_some(error));
                    }
                }
                if answers.is_over {
                    return;
                }
                drop(answers);
                if has_failed {
                    thread::sleep(PAUSE);
                }
            }
        };
        thread.spawn(serve).map_err(OwnerError::Thread)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_source_that_says_so_is_enough() {
        let mut told = Vec::new();
        let tell = |news| {
            told.push(matches!(news, News::There(true)));
            true
        };
        let mut answers = Answers { answers: vec![None; 3], told: None, tell, is_over: false };
        answers.answered(0, false);
        answers.failed(1, "tty", None);
        // Now all have answered.
        answers.answered(2, false);
        answers.answered(1, true);
        answers.answered(0, true);
        answers.answered(1, false);
        answers.answered(0, false);
        assert_eq!(told, [false, true, false]);
    }

    #[test]
    fn one_source_need_not_wait_for_the_others() {
        let mut told = Vec::new();
        let tell = |news| {
            told.push(matches!(news, News::There(true)));
            true
        };
        let mut answers = Answers { answers: vec![None; 2], told: None, tell, is_over: false };
        answers.answered(1, true);
        answers.answered(0, false);
        assert_eq!(told, [true]);
    }
}
