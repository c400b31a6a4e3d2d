//! libFuzzer with the reader of `limo_mutations` that the variable `LIMO_FUZZ_READER` names.

#![no_main]

use std::sync::LazyLock;

use limo_mutations::Target;

static READER: LazyLock<&Target> = LazyLock::new(|| {
    // `cargo xtask fuzz` sets it; without it there is nothing to do.
    let name = std::env::var("LIMO_FUZZ_READER").expect("LIMO_FUZZ_READER names a reader");
    // As above.
    limo_mutations::target(&name).expect("a reader of that name")
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    (READER.read)(input);
});
