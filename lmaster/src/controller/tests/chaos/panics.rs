//! Panics of worlds, which are expected: they are kept and not shown.

use std::cell::{Cell, RefCell};
use std::panic::{PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::*;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<Caught>> = const { RefCell::new(None) };
}

/// A panic of a world.
#[derive(Debug, Clone)]
pub struct Caught {
    /// File and line.
    pub place: String,
    pub message: String,
}

fn note(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or_default().to_owned();
    CAUGHT.set(Some(Caught { place, message }));
}

/// Runs a world.
///
/// # Errors
/// Returns its panic.
pub fn run(seed: u64, kind: WorldKind, steps: &[usize], errors: &Errors) -> Result<World, Caught> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |panic| if CATCHING.get() { note(panic) } else { usual(panic) }));
    });
    errors.take();
    CATCHING.set(true);
    let world = catch_unwind(|| World::run(seed, kind, steps, errors.clone()));
    CATCHING.set(false);
    world.map_err(|_| CAUGHT.take().expect("the hook has noted the panic"))
}
