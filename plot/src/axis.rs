//! Axis of a plot: places of values, from 0 to 1, and marks. Uses only operations that are exact, or rounded equally
//! on every machine.

/// Marks of an axis: place and label.
pub type Marks = Vec<(f64, String)>;

/// Range of values, and its marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    marks: Marks,
}

/// Least ratio of the largest to the smallest value for a logarithmic axis.
const WIDE: f64 = 30.0;

impl Axis {
    /// Makes an axis from zero to beyond the largest value. It is logarithmic if that is allowed and the values are
    /// far apart.
    pub fn of_values(values: impl Iterator<Item = f64>, may_be_logarithmic: bool) -> Self {
        let (low, high) =
            values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        if may_be_logarithmic && low > 0.0 && low < f64::MAX && high / low >= WIDE {
            return Self::decades(low, high);
        }
        let step = step(high.max(1e-6) / 5.0);
        let steps = ((high.max(1e-6) / step - 1e-9).floor() + 1.0).max(1.0);
        let marks = (0..=steps as usize).map(|mark| (mark as f64 / steps, written(mark as f64 * step, step)));
        Self { low: 0.0, high: steps * step, logarithmic: false, marks: marks.collect() }
    }

    fn decades(low: f64, high: f64) -> Self {
        let (mut first, mut marks) = (1e-6, Vec::new());
        while first * 10.0 <= low * (1.0 + 1e-9) {
            first *= 10.0;
        }
        let mut last = first;
        while last < high * (1.0 - 1e-9) {
            last *= 10.0;
        }
        let mut axis = Self { low: first, high: last, logarithmic: true, marks: Vec::new() };
        let mut mark = first;
        while mark <= last * (1.0 + 1e-9) {
            marks.push((axis.place(mark), written(mark, mark)));
            mark *= 10.0;
        }
        axis.marks = marks;
        axis
    }

    /// Makes an axis from the smallest to the largest value, with a margin on both sides and marks at round numbers.
    pub fn between(values: &[f64]) -> Self {
        let (low, high) =
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(*value), high.max(*value)));
        let margin = ((high - low) * 0.04).max(1e-6);
        let mut axis = Self { low: low - margin, high: high + margin, logarithmic: false, marks: Vec::new() };
        let step = step((high - low).max(1e-6) / 7.0);
        let mut mark = (low / step - 1e-9).ceil();
        while mark * step <= high + step * 1e-9 {
            axis.marks.push((axis.place(mark * step), written(mark * step, step)));
            mark += 1.0;
        }
        axis
    }

    /// Makes an axis with a place for each label; the first is at 0.
    pub fn of_labels(labels: Vec<String>) -> Self {
        let (low, high) = (-0.5, labels.len() as f64 - 0.5);
        let mut axis = Self { low, high, logarithmic: false, marks: Vec::new() };
        axis.marks = labels.into_iter().enumerate().map(|(at, label)| (axis.place(at as f64), label)).collect();
        axis
    }

    /// Makes an axis from `low` to `high`, both multiples of `step`, with a mark at each multiple.
    pub fn stepped(low: f64, high: f64, step: f64) -> Self {
        let mut axis = Self { low, high, logarithmic: false, marks: Vec::new() };
        let steps = ((high - low) / step).round() as usize;
        let mark = |index: usize| low + step * index as f64;
        axis.marks = (0..=steps).map(|index| (axis.place(mark(index)), written(mark(index), step))).collect();
        axis
    }

    /// Makes such an axis for zero and all `values`.
    pub fn spanning(values: impl Iterator<Item = f64>, step: f64) -> Self {
        let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        Self::stepped((low / step).floor() * step, ((high / step).ceil() * step).max(step), step)
    }

    /// Returns true if equal ratios of values have equal distances.
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Returns the marks.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the place of a value: 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            log10(value / self.low) / log10(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

/// Returns the least of 1, 2 and 5 times a power of ten that is at least `rough`.
fn step(rough: f64) -> f64 {
    let mut power = 1e-9;
    while power * 10.0 <= rough {
        power *= 10.0;
    }
    // The last factor differs from a power of ten by less than the tolerance.
    [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// Formats a value with the decimal places of `step`.
fn written(value: f64, step: f64) -> String {
    let mut places = 0;
    let mut rest = step;
    while places < 6 && rest < 0.999 {
        rest *= 10.0;
        places += 1;
    }
    format!("{value:.places$}")
}

/// Returns the decimal logarithm of a positive value to about nine digits, because the standard function differs
/// between machines.
fn log10(value: f64) -> f64 {
    let (mut mantissa, mut whole) = (value.max(1e-12), 0.0);
    while mantissa >= 10.0 {
        (mantissa, whole) = (mantissa / 10.0, whole + 1.0);
    }
    while mantissa < 1.0 {
        (mantissa, whole) = (mantissa * 10.0, whole - 1.0);
    }
    // The eighth root is below 1.34, so z is below 0.15 and six terms of the series are enough.
    let root = mantissa.sqrt().sqrt().sqrt();
    let z = (root - 1.0) / (root + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for odd in [1.0, 3.0, 5.0, 7.0, 9.0, 11.0] {
        sum += term / odd;
        term *= z * z;
    }
    whole + 16.0 * sum / std::f64::consts::LN_10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis) -> String {
        axis.marks().iter().map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn logarithms() {
        for (value, expected) in
            [(1.0, 0.0), (10.0, 1.0), (1_000.0, 3.0), (0.01, -2.0), (2.0, std::f64::consts::LOG10_2)]
        {
            assert!((log10(value) - expected).abs() < 1e-9, "{value}");
        }
    }

    #[test]
    fn axes() {
        let axis = |values: &[f64], logarithmic| Axis::of_values(values.iter().copied(), logarithmic);
        assert_eq!(marks(&axis(&[92.0, 3.0], false)), "0 20 40 60 80 100");
        assert_eq!(marks(&axis(&[0.4], false)), "0.0 0.1 0.2 0.3 0.4");
        assert_eq!(marks(&axis(&[3.0, 400.0], true)), "1 10 100 1000");
        assert_eq!(marks(&axis(&[3.0, 40.0], true)), "0 10 20 30 40");
        assert_eq!(marks(&Axis::between(&[30.0, 100.0])), "30 40 50 60 70 80 90 100");
        assert_eq!(axis(&[3.0, 400.0], true).place(100.0), 2.0 / 3.0);
        let labels = Axis::of_labels(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(labels.marks().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0.25, 0.75]);
        assert_eq!(marks(&Axis::spanning([-30.0, 60.0].into_iter(), 25.0)), "-50 -25 0 25 50 75");
        assert_eq!(marks(&Axis::spanning([].into_iter(), 20.0)), "0 20");
        // An axis without values is valid.
        assert_eq!(axis(&[], true).place(0.0), 0.0);
    }
}
