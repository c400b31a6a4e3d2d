//! Results of a campaign beside the published ones.

use serde_json::{Value, json};

/// A result with its claim.
pub struct ClaimRow {
    pub id: &'static str,
    pub what: &'static str,
    pub paper: &'static str,
    pub ours: String,
    /// The condition, and true if it holds.
    pub condition: &'static str,
    pub holds: bool,
}

impl ClaimRow {
    pub fn json(&self) -> Value {
        let Self { id, what, paper, ours, condition, holds } = self;
        json!({ "id": id, "what": what, "paper": paper, "ours": ours, "condition": condition, "holds": holds })
    }

    pub fn table(rows: &[Self]) -> String {
        let line = |row: &Self| {
            let Self { id, what, paper, ours, condition, holds } = row;
            let verdict = if *holds { "holds" } else { "DOES NOT HOLD" };
            format!("{id:<4} {what}\n     paper: {paper}\n     ours:  {ours}\n     {condition}: {verdict}\n")
        };
        rows.iter().map(line).collect()
    }
}
