//! True state of the simulated cluster: activity and draw of its nodes. The scheduler has separate beliefs.

use limo_model::{Energy, NodeId, Part, Placement, Power, Span, Time};
use limo_trace::Platform;
use limo_trace::platform::{Draw, Rest};

use crate::record::{ByState, Switches};

/// Ranges of neighbouring nodes: the first one and their number.
type Runs = Vec<(NodeId, u32)>;

/// Range of equal nodes.
struct Block {
    first: u32,
    count: u32,
    cores: u32,
    draw: Draw,
    rest: Option<Rest>,
}

/// Draws and energies, in mW and µJ (mW x ms).
pub struct Machine {
    blocks: Vec<Block>,
    now: Time,
    /// Present draw.
    draw: ByState<i64>,
    before: Power,
    used: ByState<i128>,
    processors: ByState<u32>,
    /// Ranges of waking nodes, with the time at which they are awake.
    waking: Vec<(Time, NodeId, u32)>,
    switches: Switches,
}

fn total(draw: &ByState<i64>) -> i64 {
    draw.idle + draw.computing + draw.off + draw.switching_on + draw.switching_off
}

impl Block {
    /// Returns the draw above idle of a job with `cores` of a node.
    fn extra(&self, cores: u32) -> Power {
        (self.draw.busy - self.draw.idle).scaled(i64::from(cores), i64::from(self.cores))
    }

    /// Returns the idle draw of `cores` of a node.
    fn idle(&self, cores: u32) -> Power {
        self.draw.idle.scaled(i64::from(cores), i64::from(self.cores))
    }
}

impl Machine {
    pub fn new(platform: &Platform, now: Time) -> Self {
        let mut first = 0;
        let mut blocks = Vec::new();
        let mut machine = Self {
            blocks: Vec::new(),
            now,
            draw: ByState::default(),
            before: Power::ZERO,
            used: ByState::default(),
            processors: ByState::default(),
            waking: Vec::new(),
            switches: Switches::default(),
        };
        for group in &platform.groups {
            let (count, cores) = (group.count, group.cores);
            blocks.push(Block { first, count, cores, draw: group.draw, rest: group.rest });
            first += count;
            machine.draw.idle += group.draw.idle.mw() * i64::from(count);
            machine.processors.idle += count * cores;
        }
        machine.blocks = blocks;
        machine
    }

    /// Counts the energy until `to`.
    pub fn advance(&mut self, to: Time) {
        let span = i128::from((to - self.now).ms().max(0));
        self.before = self.draw();
        self.used.idle += i128::from(self.draw.idle) * span;
        self.used.computing += i128::from(self.draw.computing) * span;
        self.used.off += i128::from(self.draw.off) * span;
        self.used.switching_on += i128::from(self.draw.switching_on) * span;
        self.used.switching_off += i128::from(self.draw.switching_off) * span;
        self.now = self.now.max(to);
    }

    pub fn draw(&self) -> Power {
        Power::from_mw(total(&self.draw))
    }

    /// Returns the draw during the time that `advance` counted last.
    pub fn draw_before(&self) -> Power {
        self.before
    }

    pub fn processors(&self) -> ByState<u32> {
        self.processors
    }

    pub fn switches(&self) -> Switches {
        self.switches
    }

    pub fn energy_uj(&self) -> i128 {
        let used = &self.used;
        used.idle + used.computing + used.off + used.switching_on + used.switching_off
    }

    pub fn energy_by_state(&self) -> ByState<Energy> {
        let energy = |uj: i128| Energy::from_mj(i64::try_from(uj.div_euclid(1_000)).unwrap_or(i64::MAX));
        let used = &self.used;
        ByState {
            idle: energy(used.idle),
            computing: energy(used.computing),
            off: energy(used.off),
            switching_on: energy(used.switching_on),
            switching_off: energy(used.switching_off),
        }
    }

    fn block(&self, node: NodeId) -> &Block {
        // Nodes are numbered across the blocks, and the core names only known nodes.
        let index = self.blocks.partition_point(|block| block.first <= node.0);
        &self.blocks[index.saturating_sub(1)]
    }

    /// Splits a range of nodes at block boundaries: index of the block, first node, number of nodes.
    fn pieces(&self, (first, count): (NodeId, u32)) -> impl Iterator<Item = (usize, NodeId, u32)> + use<> {
        let ends: Vec<(usize, u32)> = {
            let from = self.blocks.partition_point(|block| block.first + block.count <= first.0);
            let blocks = self.blocks.iter().enumerate().skip(from);
            let last = first.0 + count;
            blocks
                .take_while(|(_, block)| block.first < last)
                .map(|(i, b)| (i, (b.first + b.count).min(last)))
                .collect()
        };
        let mut at = first.0;
        ends.into_iter().map(move |(block, end)| {
            let piece = (block, NodeId(at), end - at);
            at = end;
            piece
        })
    }

    /// Keeps only the first nodes; the others join later, in order.
    pub fn only(&mut self, nodes: usize) {
        if nodes == self.blocks.iter().map(|block| block.count as usize).sum::<usize>() {
            return;
        }
        self.draw.idle = 0;
        self.processors.idle = 0;
        for node in 0..u32::try_from(nodes).unwrap_or(u32::MAX) {
            self.join(NodeId(node));
        }
    }

    /// Adds one more node.
    pub fn join(&mut self, node: NodeId) {
        let (idle, cores) = (self.block(node).draw.idle.mw(), self.block(node).cores);
        self.draw.idle += idle;
        self.processors.idle += cores;
    }

    /// Adds (`up`) or removes the load of a job on its nodes. `draw` replaces the platform's draw above idle.
    fn load(&mut self, placement: &Placement, draw: Option<Power>, up: bool) {
        self.draw.computing += draw.unwrap_or_default().mw() * if up { 1 } else { -1 };
        for part in placement {
            let block = self.block(part.unit.node);
            let count = i64::from(part.count) * if up { 1 } else { -1 };
            let extra = if draw.is_some() { Power::ZERO } else { block.extra(part.cores) };
            let (idle, extra) = (block.idle(part.cores).mw(), extra.mw());
            self.draw.idle -= idle * count;
            self.draw.computing += (idle + extra) * count;
            let cores = part.count * part.cores;
            let (from, to) = if up {
                (&mut self.processors.idle, &mut self.processors.computing)
            } else {
                (&mut self.processors.computing, &mut self.processors.idle)
            };
            *from -= cores;
            *to += cores;
        }
    }

    /// Returns the draw above idle of a job on its nodes, by the platform's values.
    pub fn extra(&self, placement: &[Part]) -> Power {
        let extra = |part: &Part| self.block(part.unit.node).extra(part.cores).scaled(i64::from(part.count), 1);
        placement.iter().map(extra).sum()
    }

    /// Changes the draw of a running job by this amount.
    pub fn draw_more(&mut self, more: Power) {
        self.draw.computing += more.mw();
    }

    pub fn compute(&mut self, placement: &Placement, draw: Option<Power>) {
        self.load(placement, draw, true);
    }

    pub fn give(&mut self, placement: &Placement, draw: Option<Power>) {
        self.load(placement, draw, false);
    }

    /// Returns the energy of a job in `span`: its share of idle draw, and its load.
    pub fn energy_of(&self, placement: &[Part], span: Span, draw: Option<Power>) -> Energy {
        let shares = |part: &Part| {
            let block = self.block(part.unit.node);
            let extra = if draw.is_some() { Power::ZERO } else { block.extra(part.cores) };
            (block.idle(part.cores) + extra).scaled(i64::from(part.count), 1)
        };
        (placement.iter().map(shares).sum::<Power>() + draw.unwrap_or_default()) * span
    }

    /// Returns the energy of a job's share of idle draw over `span`.
    pub fn idle_energy_of(&self, placement: &[Part], span: Span) -> Energy {
        self.energy_of(placement, span, Some(Power::ZERO))
    }

    /// Puts nodes to sleep; returns the time at which each range is asleep.
    pub fn sleep(&mut self, runs: &[(NodeId, u32)]) -> Vec<(Time, Runs)> {
        let mut done: Vec<(Time, Runs)> = Vec::new();
        for (block, first, count) in runs.iter().flat_map(|run| self.pieces(*run)).collect::<Vec<_>>() {
            let Block { cores, draw, rest: Some(rest), .. } = self.blocks[block] else { continue };
            self.draw.idle -= draw.idle.mw() * i64::from(count);
            self.draw.switching_off += rest.down_draw.mw() * i64::from(count);
            self.processors.idle -= count * cores;
            self.processors.switching_off += count * cores;
            self.switches.off += u64::from(count);
            at(&mut done, self.now + rest.down_time).push((first, count));
        }
        done
    }

    pub fn asleep(&mut self, runs: &[(NodeId, u32)]) {
        for (block, _, count) in runs.iter().flat_map(|run| self.pieces(*run)).collect::<Vec<_>>() {
            let Block { cores, rest: Some(rest), .. } = self.blocks[block] else { continue };
            self.draw.switching_off -= rest.down_draw.mw() * i64::from(count);
            self.draw.off += rest.draw.mw() * i64::from(count);
            self.processors.switching_off -= count * cores;
            self.processors.off += count * cores;
        }
    }

    /// Wakes nodes; returns the time at which each range is awake.
    pub fn wake(&mut self, runs: &[(NodeId, u32)]) -> Vec<(Time, Runs)> {
        let mut done: Vec<(Time, Runs)> = Vec::new();
        for (block, first, count) in runs.iter().flat_map(|run| self.pieces(*run)).collect::<Vec<_>>() {
            let Block { cores, rest: Some(rest), .. } = self.blocks[block] else { continue };
            self.draw.off -= rest.draw.mw() * i64::from(count);
            self.draw.switching_on += rest.up_draw.mw() * i64::from(count);
            self.processors.off -= count * cores;
            self.processors.switching_on += count * cores;
            self.switches.on += u64::from(count);
            self.waking.push((self.now + rest.up_time, first, count));
            at(&mut done, self.now + rest.up_time).push((first, count));
        }
        done
    }

    pub fn awake(&mut self, runs: &[(NodeId, u32)]) {
        for (block, first, count) in runs.iter().flat_map(|run| self.pieces(*run)).collect::<Vec<_>>() {
            let Block { cores, draw, rest: Some(rest), .. } = self.blocks[block] else { continue };
            self.draw.switching_on -= rest.up_draw.mw() * i64::from(count);
            self.draw.idle += draw.idle.mw() * i64::from(count);
            self.processors.switching_on -= count * cores;
            self.processors.idle += count * cores;
            self.waking.retain(|(_, node, _)| *node != first);
        }
    }

    /// Returns when the last waking node of a placement is awake.
    pub fn awake_at(&self, placement: &[Part]) -> Option<Time> {
        let meets = |first: &NodeId, count: &u32| {
            let end = first.0 + count;
            placement.iter().any(|part| part.unit.node.0 < end && first.0 < part.unit.node.0 + part.count)
        };
        self.waking.iter().filter(|(_, first, count)| meets(first, count)).map(|(at, _, _)| *at).max()
    }
}

/// Returns the entry for a time.
fn at(done: &mut Vec<(Time, Runs)>, time: Time) -> &mut Runs {
    let index = done.iter().position(|(at, _)| *at == time).unwrap_or_else(|| {
        done.push((time, Runs::new()));
        done.len() - 1
    });
    &mut done[index].1
}
