//! The groups of computers, and the file that describes them.

use std::fmt::Write as _;
use std::io::{self, Write};

use limo_model::decimal::text;

use super::calendar::Opening;
use super::numbers as n;

/// Group of equal computers in one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolGroup {
    /// Number from 1, by size.
    pub number: usize,
    pub computers: u32,
    kind: &'static str,
    cores: u32,
    /// Milliwatts while active, idle and asleep.
    draws: [i64; 3],
    pub opening: Opening,
}

/// Returns the groups, the largest first.
pub(super) fn all() -> [PoolGroup; n::SIZES.len()] {
    std::array::from_fn(|index| {
        let from_smallest = n::SIZES.len() - 1 - index;
        let (kind, (cores, draws)) = if from_smallest < n::LEGACY {
            let (active, idle) = (n::LEGACY_ACTIVE[from_smallest], n::LEGACY_IDLE[from_smallest]);
            ("legacy", (n::LEGACY_CORES, [active, idle, n::LEGACY_SLEEP]))
        } else if from_smallest < n::LEGACY + n::HIGH_END {
            ("high-end", n::HIGH)
        } else {
            ("normal", n::NORMAL)
        };
        let opening = match index {
            _ if index < n::ALL_DAY => Opening::AllDay,
            _ if index < n::ALL_DAY + n::EVENING => Opening::Evening,
            _ => Opening::Office,
        };
        PoolGroup { number: index + 1, computers: n::SIZES[index], kind, cores, draws, opening }
    })
}

impl PoolGroup {
    /// Returns the name of a computer, counted from 0.
    pub fn computer(&self, index: u32) -> String {
        format!("g{:02}-{:03}", self.number, index + 1)
    }
}

/// Writes `groups.toml`.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    let mut file = String::from(
        "# Groups of the pool newcastle-2010. The computers of g01 are g01-001, g01-002 and so on.\n\
        # Draws are of one computer. Times are on the clock of the pool, which is UTC.\n",
    );
    for group in all() {
        let watts = group.draws.map(|draw| format!("\"{} W\"", text(draw.into(), 3)));
        let [active, idle, sleep] = watts;
        // Writing to a `String` cannot fail.
        let _ = write!(
            file,
            "\n[group.g{:02}]\ncomputers = {}\ntype = \"{}\"\ncores = {}\nactive = {active}\nidle = {idle}\nsleep = {sleep}\n\
            open = [\"{}\"]\nreboot = \"{}\"\n",
            group.number,
            group.computers,
            group.kind,
            group.cores,
            group.opening.shown(),
            n::REBOOT
        );
    }
    out.write_all(file.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_recipe() {
        let groups = all();
        assert_eq!(groups.iter().map(|group| group.computers).sum::<u32>(), 1_400);
        let of =
            |kind: &str| groups.iter().filter(|group| group.kind == kind).map(|group| group.computers).sum::<u32>();
        // 2 x 10 and 3 x 20, then 6 x 20.
        assert_eq!((of("legacy"), of("high-end"), of("normal")), (80, 120, 1_200));
        let open = |opening| groups.iter().filter(|group| group.opening == opening).count();
        assert_eq!([Opening::AllDay, Opening::Evening, Opening::Office].map(open), [12, 8, 15]);
    }

    #[test]
    fn the_file_is_toml() {
        let mut text = Vec::new();
        write(&mut text).expect("memory");
        let file: toml::Table = String::from_utf8(text).expect("UTF-8").parse().expect("TOML");
        let groups = file["group"].as_table().expect("groups");
        assert_eq!(groups.len(), 35);
        let last = groups["g35"].as_table().expect("a group");
        assert_eq!(last["active"].as_str(), Some("100 W"));
        assert_eq!(groups["g34"]["idle"].as_str(), Some("57.5 W"));
        assert_eq!(last["open"][0].as_str(), Some("mon-fri 08:00-18:00"));
        assert_eq!(last["computers"].as_integer(), Some(10));
    }
}
