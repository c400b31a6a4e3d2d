//! Many short rows of numbers in one piece of memory, so that making, copying and dropping all of them costs as little as one.

/// Rows that grow in place, or are moved to the end when they are full.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    cells: Vec<i64>,
    rows: Vec<Row>,
    /// Number of cells that a row gets with its first cell.
    usual: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    start: usize,
    len: usize,
    room: usize,
}

impl Rows {
    /// Makes empty rows, most of which will have at most `usual` cells.
    pub(crate) fn new(rows: usize, usual: usize) -> Self {
        Self { cells: Vec::new(), rows: vec![Row::default(); rows], usual }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, row: usize) -> &[i64] {
        let Row { start, len, .. } = self.rows[row];
        &self.cells[start..start + len]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [i64] {
        let Row { start, len, .. } = self.rows[row];
        &mut self.cells[start..start + len]
    }

    pub(crate) fn clear(&mut self, row: usize) {
        self.rows[row].len = 0;
    }

    /// Makes room for `count` cells before the one at `place`; the new cells have old contents or zeros. Returns the
    /// row.
    pub(crate) fn insert(&mut self, row: usize, place: usize, count: usize) -> &mut [i64] {
        let Row { start, len, room } = self.rows[row];
        if len + count > room {
            let room = (2 * room).max(self.usual).max(len + count);
            let end = self.cells.len();
            self.cells.extend_from_within(start..start + len);
            self.cells.resize(end + room, 0);
            self.rows[row] = Row { start: end, len, room };
        }
        let of = &mut self.rows[row];
        of.len += count;
        let cells = &mut self.cells[of.start..of.start + of.len];
        cells.copy_within(place..len, place + count);
        cells
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_vectors(steps in proptest::collection::vec((0..5_usize, 0..9_usize, 1..4_usize, 0..20_u8), 0..80)) {
            let mut rows = Rows::new(5, 4);
            let mut vectors: Vec<Vec<i64>> = vec![Vec::new(); 5];
            for (number, (row, place, count, clears)) in steps.into_iter().enumerate() {
                if clears == 0 {
                    rows.clear(row);
                    vectors[row].clear();
                    continue;
                }
                let place = place.min(vectors[row].len());
                let new = vec![number as i64; count];
                rows.insert(row, place, count)[place..place + count].copy_from_slice(&new);
                vectors[row].splice(place..place, new);
                prop_assert!((0..rows.len()).all(|row| rows.row(row) == vectors[row]));
            }
        }
    }
}
