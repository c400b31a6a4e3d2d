//! The assignment of jobs to nodes with the least energy: COA of the heterogeneity paper, equations 6 to 11.
//!
//! Idea: jobs join one after another; each takes the cheapest chain of moves that ends at a free node, so that the sum
//! over the jobs so far stays least (successive shortest paths). Equal jobs are one row, so that a chain has as many
//! steps as there are different jobs, whatever the number of nodes. Exact, in integers. Cost: for each node that a job
//! needs, at most one look at each assigned node for each different job; usually far less.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use limo_model::Energy;
use thiserror::Error;

/// Largest weight on either side of zero: 2^44 mJ, or 4.9 MWh on one node.
pub const MOST: Energy = Energy::from_mj(1 << 44);
/// Most different jobs, so that no sum of weights overflows.
pub const ROWS: usize = 1 << 16;

/// In place of a weight: the job cannot run there.
const FORBIDDEN: i64 = i64::MAX;
/// Distance without a chain.
const UNREACHED: i64 = i64::MAX;
/// Number of columns that are put in order first.
const FIRST_ORDERED: usize = 32;

/// The weights of different jobs on different nodes.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Number of equal nodes of each column.
    nodes: Vec<u32>,
    /// The different row for each given one.
    different: Vec<usize>,
    rows: usize,
    /// Different row by different row: mJ, or [`FORBIDDEN`].
    cells: Vec<i64>,
}

/// A job to assign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRow {
    /// Row of its weights.
    pub row: usize,
    /// Number of its nodes, each with this weight.
    pub nodes: usize,
}

/// Error of [`Weights::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WeightsError {
    /// There are too many different jobs.
    #[error("there are more than {ROWS} different jobs")]
    Rows,
    /// A row has too many or too few weights.
    #[error("row {row} has {found} weights: there are {columns} nodes")]
    Columns {
        /// Number of the row, from 0.
        row: usize,
        /// Number of its weights.
        found: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A weight is out of range.
    #[error("row {row}, column {column}: {} mJ is out of range: at most {} mJ on either side of zero", weight.mj(), MOST.mj())]
    Weight {
        /// Number of the row, from 0.
        row: usize,
        /// Number of the column, from 0.
        column: usize,
        /// The weight.
        weight: Energy,
    },
}

impl Weights {
    /// Makes weights of rows. `nodes` has the number of equal nodes of each column; `None` is a node on which the job
    /// cannot run. Equal rows are one.
    ///
    /// # Errors
    /// If there are more than [`ROWS`] different rows, a row has another number of columns, or a weight is beyond [`MOST`].
    pub fn new<R: AsRef<[Option<Energy>]>>(nodes: Vec<u32>, rows: &[R]) -> Result<Self, WeightsError> {
        let (mut known, mut different) = (BTreeMap::new(), Vec::with_capacity(rows.len()));
        let mut cells = Vec::new();
        for (row, weights) in rows.iter().map(AsRef::as_ref).enumerate() {
            if weights.len() != nodes.len() {
                return Err(WeightsError::Columns { row, found: weights.len(), columns: nodes.len() });
            }
            let count = known.len();
            let place = *known.entry(weights).or_insert(count);
            different.push(place);
            if place < count {
                continue;
            }
            for (column, weight) in weights.iter().enumerate() {
                match *weight {
                    Some(weight) if weight > MOST || weight < -MOST => {
                        return Err(WeightsError::Weight { row, column, weight });
                    }
                    weight => cells.push(weight.map_or(FORBIDDEN, Energy::mj)),
                }
            }
        }
        if known.len() > ROWS {
            return Err(WeightsError::Rows);
        }
        Ok(Self { nodes, different, rows: known.len(), cells })
    }

    /// Assigns jobs to nodes. Returns the columns of each job, in ascending order; a column is there once for each of its
    /// nodes. `None` is a job that does not fit beside those before it, which have precedence. Among all assignments of
    /// the others, the sum of the weights is least.
    ///
    /// # Panics
    /// If a job names a row that does not exist.
    pub fn assign(&self, jobs: &[JobRow]) -> Vec<Option<Vec<usize>>> {
        let mut assigner = Assigner::new(self, jobs.iter().map(|job| job.nodes).sum());
        let fits: Vec<bool> = jobs.iter().map(|job| assigner.add(self.different[job.row], job.nodes)).collect();
        let mut taken = assigner.taken_by_row();
        let places = jobs.iter().zip(fits).map(|(job, fits)| {
            fits.then(|| {
                // Each job that fits has added as many nodes to its row.
                let taken = &mut taken[self.different[job.row]];
                let mut columns = taken.split_off(taken.len() - job.nodes);
                columns.sort_unstable();
                columns
            })
        });
        places.collect()
    }

    /// Returns the sum of the weights of an assignment.
    pub fn sum(&self, jobs: &[JobRow], places: &[Option<Vec<usize>>]) -> Energy {
        let placed = jobs.iter().zip(places).filter_map(|(job, columns)| Some((job, columns.as_ref()?)));
        let weights = placed.flat_map(|(job, columns)| {
            let row = self.row(self.different[job.row]);
            columns.iter().map(|column| Energy::from_mj(row[*column]))
        });
        weights.sum()
    }

    fn row(&self, row: usize) -> &[i64] {
        &self.cells[row * self.nodes.len()..][..self.nodes.len()]
    }
}

/// The columns of one row by weight. Only as many are put in order as are looked at.
#[derive(Debug)]
struct Ordered {
    columns: Vec<u32>,
    /// Length of the beginning of `columns` that is in order.
    ordered: usize,
    /// No column before this one is free.
    first_free: usize,
}

/// An assignment that grows.
struct Assigner<'a> {
    weights: &'a Weights,
    /// Most nodes that are assigned in the end.
    most: usize,
    /// Free nodes of each column.
    free: Vec<u32>,
    /// Made when the row is first needed.
    rows: Vec<Option<Ordered>>,
    /// The dual variable of each row.
    potentials: Vec<i64>,
    /// The column and the row of each assigned node, and the dual variable of the node, which is never above 0, that of
    /// a free node.
    columns: Vec<u32>,
    owners: Vec<u32>,
    prices: Vec<i64>,
    /// The weights of each row on the assigned nodes; empty until the row is needed.
    assigned: Vec<Vec<i64>>,
    chains: Chains,
}

/// The shortest chains from a row to the others.
#[derive(Default)]
struct Chains {
    /// Length of the chain to each row.
    lengths: Vec<i64>,
    /// The last step of the chain: the row before it, and the assigned node that goes from this row to that one.
    steps: Vec<(u32, u32)>,
    is_done: Vec<bool>,
    /// Rows whose chain is final.
    done: Vec<u32>,
}

/// An earlier state, to which a job is taken back.
struct Before {
    assigned: usize,
    owners: Vec<u32>,
    prices: Vec<i64>,
    potentials: Vec<i64>,
    first_free: Vec<usize>,
}

impl<'a> Assigner<'a> {
    fn new(weights: &'a Weights, most: usize) -> Self {
        let rows = weights.rows;
        Self {
            weights,
            most,
            free: weights.nodes.clone(),
            rows: (0..rows).map(|_| None).collect(),
            potentials: vec![0; rows],
            columns: Vec::new(),
            owners: Vec::new(),
            prices: Vec::new(),
            assigned: vec![Vec::new(); rows],
            chains: Chains::default(),
        }
    }

    /// Adds a job if all of its `nodes` can be found.
    fn add(&mut self, row: usize, nodes: usize) -> bool {
        self.prepare(row);
        let before = (nodes > 1).then(|| self.before());
        let fits = (0..nodes).all(|_| self.add_node(row));
        if let Some(before) = before.filter(|_| !fits) {
            self.take_back(before);
        }
        fits
    }

    /// Chooses the columns of a row, and sets its potential: no weight is below it.
    fn prepare(&mut self, row: usize) {
        if self.rows[row].is_some() {
            return;
        }
        let cells = self.weights.row(row);
        let all = (0u32..).zip(cells).zip(&self.weights.nodes);
        let possible = all.filter(|((_, weight), nodes)| **weight != FORBIDDEN && **nodes > 0);
        let mut columns: Vec<(i64, u32)> = possible.map(|((column, weight), _)| (*weight, column)).collect();
        // Other jobs take less than `most` nodes, so one of the first columns is free.
        if self.most > 0 && columns.len() > self.most {
            columns.select_nth_unstable(self.most - 1);
            columns.truncate(self.most);
        }
        self.potentials[row] = columns.iter().map(|(weight, _)| *weight).min().unwrap_or(0);
        self.assigned[row] = self.columns.iter().map(|column| cells[*column as usize]).collect();
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        self.rows[row] = Some(Ordered { columns, ordered: 0, first_free: 0 });
    }

    /// Returns the free column with the least weight of a row, and the weight.
    fn cheapest(&mut self, row: usize) -> Option<(i64, u32)> {
        let cells = self.weights.row(row);
        let ordered = self.rows[row].as_mut()?;
        loop {
            if ordered.first_free == ordered.ordered {
                ordered.extend(cells);
            }
            let column = *ordered.columns.get(ordered.first_free)?;
            if self.free[column as usize] > 0 {
                return Some((cells[column as usize], column));
            }
            ordered.first_free += 1;
        }
    }

    /// Adds a node to those of a row, by the shortest chain to a free one. Returns false if there is none.
    fn add_node(&mut self, row: usize) -> bool {
        let mut best = (UNREACHED, 0, 0);
        self.chains.begin(row, self.potentials.len());
        let mut next = Some(row);
        while let Some(from) = next {
            let base = self.chains.finish(from) - self.potentials[from];
            if let Some((weight, column)) = self.cheapest(from) {
                best = best.min((base + weight, from, column));
            }
            // Nothing is shorter than a chain whose last step costs nothing.
            if best.0 == self.chains.lengths[from] {
                break;
            }
            self.chains.extend((from, base), &self.assigned[from], (&self.owners, &self.prices));
            next = self.chains.nearest(best.0);
        }
        let (length, last, column) = best;
        if length == UNREACHED {
            return false;
        }
        self.follow(row, (length, last, column));
        true
    }

    /// Carries out a chain: each row gives a node to the row before it, and the last one takes a free node.
    fn follow(&mut self, row: usize, (length, last, column): (i64, usize, u32)) {
        for (owner, price) in self.owners.iter().zip(&mut self.prices) {
            if self.chains.is_done[*owner as usize] {
                *price -= length - self.chains.lengths[*owner as usize];
            }
        }
        for from in &self.chains.done {
            self.potentials[*from as usize] += length - self.chains.lengths[*from as usize];
        }
        let mut receiver = last;
        while receiver != row {
            let (from, node) = self.chains.steps[receiver];
            self.owners[node as usize] = from;
            receiver = from as usize;
        }
        self.free[column as usize] -= 1;
        self.columns.push(column);
        self.owners.push(last as u32);
        self.prices.push(0);
        for row in (0..self.rows.len()).filter(|row| self.rows[*row].is_some()) {
            self.assigned[row].push(self.weights.row(row)[column as usize]);
        }
    }

    fn before(&self) -> Before {
        Before {
            assigned: self.columns.len(),
            owners: self.owners.clone(),
            prices: self.prices.clone(),
            potentials: self.potentials.clone(),
            first_free: self.rows.iter().map(|row| row.as_ref().map_or(0, |row| row.first_free)).collect(),
        }
    }

    fn take_back(&mut self, before: Before) {
        for column in self.columns.drain(before.assigned..) {
            self.free[column as usize] += 1;
        }
        self.assigned.iter_mut().for_each(|weights| weights.truncate(before.assigned));
        (self.owners, self.prices, self.potentials) = (before.owners, before.prices, before.potentials);
        for (row, first_free) in self.rows.iter_mut().zip(before.first_free) {
            row.iter_mut().for_each(|row| row.first_free = first_free);
        }
    }

    /// Returns the columns of each row, in descending order.
    fn taken_by_row(&self) -> Vec<Vec<usize>> {
        let mut taken = vec![Vec::new(); self.rows.len()];
        for (column, owner) in self.columns.iter().zip(&self.owners) {
            taken[*owner as usize].push(*column as usize);
        }
        taken.iter_mut().for_each(|columns| columns.sort_unstable_by(|a, b| b.cmp(a)));
        taken
    }
}

impl Ordered {
    /// Puts as many further columns in order as are in order already.
    fn extend(&mut self, cells: &[i64]) {
        let key = |column: &u32| (cells[*column as usize], *column);
        let rest = &mut self.columns[self.ordered..];
        let count = rest.len().min(self.ordered.max(FIRST_ORDERED));
        if count < rest.len() {
            rest.select_nth_unstable_by_key(count, key);
        }
        rest[..count].sort_unstable_by_key(key);
        self.ordered += count;
    }
}

impl Chains {
    /// Begins at a row, among a number of rows.
    fn begin(&mut self, row: usize, rows: usize) {
        self.lengths.clear();
        self.lengths.resize(rows, UNREACHED);
        self.lengths[row] = 0;
        self.steps.resize(rows, (0, 0));
        self.is_done.clear();
        self.is_done.resize(rows, false);
        self.done.clear();
    }

    /// Makes the chain to a row final, and returns its length.
    fn finish(&mut self, row: usize) -> i64 {
        self.is_done[row] = true;
        self.done.push(row as u32);
        self.lengths[row]
    }

    /// Looks at each assigned node as the next step after `from`. `base` is the length of its chain less its potential.
    fn extend(&mut self, (from, base): (usize, i64), weights: &[i64], (owners, prices): (&[u32], &[i64])) {
        for (node, ((weight, price), owner)) in (0u32..).zip(weights.iter().zip(prices).zip(owners)) {
            if *weight == FORBIDDEN {
                continue;
            }
            let length = base + weight - price;
            let known = &mut self.lengths[*owner as usize];
            if length < *known {
                *known = length;
                self.steps[*owner as usize] = (from as u32, node);
            }
        }
    }

    /// Returns the row with the shortest chain that is not final yet and is shorter than `bound`.
    fn nearest(&self, bound: i64) -> Option<usize> {
        let open = self.lengths.iter().zip(&self.is_done).enumerate().filter(|(_, (_, is_done))| !**is_done);
        let nearest = open.map(|(row, (length, _))| (*length, row)).min()?;
        (nearest.0 < bound).then_some(nearest.1)
    }
}
