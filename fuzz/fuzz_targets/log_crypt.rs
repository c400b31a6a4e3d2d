//! libFuzzer with the reader `log_crypt` of limo-mutations.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    limo_mutations::read("log_crypt", input);
});
