//! Collects errors that the controller logs, for tests that check them: a refused event that should be possible, or a
//! plan that broke a rule. Independent of the expected errors.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// The errors of one thread since the last call.
#[derive(Debug, Clone, Default)]
pub struct Errors(Arc<Mutex<Vec<String>>>);

impl Errors {
    /// Collects errors until the guard is dropped.
    pub fn listen() -> (Self, DefaultGuard) {
        let errors = Self::default();
        let guard = tracing::subscriber::set_default(errors.clone());
        (errors, guard)
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics while holding it"))
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::ERROR)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.0.lock().expect("nobody panics while holding it").push(format!("{}{}", words.message, words.values));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Words {
    message: String,
    values: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            let _ = write!(self.values, ", {} {value:?}", field.name());
        }
    }
}
