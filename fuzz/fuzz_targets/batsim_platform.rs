//! libFuzzer with the reader `batsim_platform` of limo-mutations.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    limo_mutations::read("batsim_platform", input);
});
