//! Rows as CSV, for predictors of other programs.

use std::fmt::Write as _;

use super::KnownJob;

/// Returns a table of features and draws; the first `training` rows are to be learned, the others to be predicted. Names
/// are hashes.
pub fn csv(cases: &[KnownJob], training: usize) -> String {
    let mut text =
        "part,user,queue,application,stem,array,requested_s,nodes,cores,accelerators,hardware,memory_mib,hour,watts\n"
            .to_owned();
    for (index, case) in cases.iter().enumerate() {
        let part = if index < training { "train" } else { "test" };
        let f = case.features();
        let names = format!("{},{},{},{},{}", f.user, f.queue, f.application, f.stem, u8::from(f.array));
        let asked = format!("{},{},{},{}", f.requested_s, f.nodes, f.cores, f.accelerators);
        // Writing to a text does not fail.
        let _ = writeln!(text, "{part},{names},{asked},{},{},{},{}", f.hardware, f.memory_mib, f.hour, case.watts());
    }
    text
}
