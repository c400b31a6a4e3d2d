//! Results of a replayed machine with the figures of limo-2018, sections 4.2 and 4.3: `cargo run -p lprof --example
//! limo-2018 -- DIR` writes them into DIR, and `lprof report DIR` shows them.
//!
//! Draws over time follow from what the text says; docs/lprof-report.md says what that is, and what is a free choice. The
//! samples of a wattmeter follow from the draws, and the energies from the samples by the arithmetic of `lprof`. No
//! command runs, and no time passes.

mod machine;

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let dir = std::env::args().nth(1).ok_or_else(|| anyhow::anyhow!("name a directory for the results"))?;
    machine::write(Path::new(&dir))
}
