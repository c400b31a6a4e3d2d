//! libFuzzer with the reader `messages` of limo-mutations.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    limo_mutations::read("messages", input);
});
