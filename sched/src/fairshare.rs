//! Points for age and usage in a priority. Uses integers only, so that every machine computes the same points.

use limo_model::{Fairshare, Span};

/// Returns the points that a waiting time adds to a priority.
pub(crate) fn age_points(of: &Fairshare, waited: Span) -> i64 {
    let waited = i128::from(waited.ms().clamp(0, of.age_max.ms()));
    let points = i128::from(of.age_weight) * waited / i128::from(of.age_max.ms().max(1));
    i64::try_from(points).unwrap_or(i64::MAX)
}

/// Returns the points of a user who used `used` of `all` and has this share of all shares.
pub(crate) fn share_points(of: &Fairshare, (used, all): (u64, u64), (share, shares): (u32, u64)) -> i64 {
    let left = match share {
        0 => 0,
        _ if all == 0 => ONE,
        _ => halved(u128::from(used) * u128::from(shares), u128::from(all) * u128::from(share)),
    };
    ((u128::from(of.weight) * u128::from(left)) >> 32) as i64
}

/// A member of the tree of accounts: the part of the cluster that it should have, and its effective use of the cluster's use.
/// Both are in parts of 2^48, so that shares of 1 to a million have an effect on several levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeShare {
    share: u128,
    usage: u128,
}

impl TreeShare {
    /// Returns a child of `above`, or a root, which used `used` of `all` and has this share of the shares of all siblings. A
    /// part of what the siblings used counts as its own use, in the proportion of the shares, as in Slurm's classic formula.
    pub fn below(above: Option<Self>, (used, all): (u64, u64), (share, shares): (u32, u64)) -> Self {
        let own = (u128::from(used) << 48) / u128::from(all.max(1));
        let part = (u128::from(share) << 48) / u128::from(shares.max(1));
        match above {
            None => Self { share: part, usage: own },
            Some(above) => Self {
                share: (above.share * part) >> 48,
                usage: own + ((above.usage.saturating_sub(own) * part) >> 48),
            },
        }
    }

    /// Returns the points of a user at this place: the weight times 2^(-usage/share).
    pub fn points(self, of: &Fairshare) -> i64 {
        let left = if self.share == 0 { 0 } else { halved(self.usage, self.share) };
        ((u128::from(of.weight) * u128::from(left)) >> 32) as i64
    }
}

/// The value 1 as a fixed-point number: 2^32.
const ONE: u64 = 1 << 32;

/// 2^(-1/2), 2^(-1/4), 2^(-1/8), ...: one for each bit of an exponent's fraction. Further roots would change a number
/// of 32 bits by less than its rounding.
const ROOTS: [u64; 16] = {
    let mut roots = [0; 16];
    // The root of 2^-1 x 2^64.
    let mut root = (1_u64 << 63).isqrt();
    let mut bit = 0;
    while bit < roots.len() {
        roots[bit] = root;
        root = (root << 32).isqrt();
        bit += 1;
    }
    roots
};

/// Returns 2^(-n/d) in parts of 2^32; `d` is not 0.
fn halved(n: u128, d: u128) -> u64 {
    let whole = n / d;
    if whole > 32 {
        return 0;
    }
    // A fraction of 16 bits; the operands are scaled so that the shift cannot overflow.
    let (rest, d) = (n % d, d);
    let shift = (128 - d.leading_zeros()).saturating_sub(112);
    let bits = ((rest >> shift) << 16) / (d >> shift).max(1);
    let of_bits = ROOTS.iter().enumerate().filter(|(bit, _)| bits >> (15 - bit) & 1 == 1);
    of_bits.fold(ONE, |product, (_, root)| (product * root) >> 32) >> whole
}

/// Decays `used` over that time.
pub(crate) fn decayed(used: u64, after: Span, half_life: Span) -> u64 {
    let (after, half_life) = (after.ms().max(0).unsigned_abs(), half_life.ms().max(1).unsigned_abs());
    ((u128::from(used) * u128::from(halved(u128::from(after), u128::from(half_life)))) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_one_half() {
        let check = |n: u128, d: u128| {
            let expected = (-(n as f64) / d as f64).exp2() * ONE as f64;
            let error = (halved(n, d) as f64 - expected).abs() / ONE as f64;
            assert!(error < 2e-5, "2^-({n}/{d}) is {expected}, not {}", halved(n, d));
        };
        for (n, d) in [(0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (5, 1), (7, 3), (999, 1000), (40, 1), (1, 1 << 90)] {
            check(n, d);
        }
        check((1 << 120) / 3, 1 << 120);
        assert_eq!((halved(0, 7), halved(1, 1), halved(3, 1)), (ONE, ONE / 2, ONE / 8));
    }

    #[test]
    fn usage_counts_half_after_its_half_life() {
        let week = Span::from_secs(7 * 86_400);
        let left = |days: i64| decayed(1_000_000, Span::from_secs(days * 86_400), week);
        assert_eq!((left(0), left(7), left(14), left(7_000)), (1_000_000, 500_000, 250_000, 0));
        assert!(left(1).abs_diff(905_723) < 20, "{}", left(1));
    }

    #[test]
    fn the_use_of_siblings_counts_in_part() {
        let fairshare = Fairshare { weight: 1_000, ..Fairshare::default() };
        // Two roots with equal shares; one used all, by one of its two users.
        let used = TreeShare::below(None, (100, 100), (1, 2));
        let idle = TreeShare::below(None, (0, 100), (1, 2));
        let user = |above, used| TreeShare::below(Some(above), (used, 100), (1, 2)).points(&fairshare);
        assert_eq!((used.points(&fairshare), idle.points(&fairshare)), (250, 1_000));
        // Usage 1 for a share of 1/4: 2^-4. The other user of that root: usage 1/2, 2^-2.
        assert_eq!([user(used, 100), user(used, 0), user(idle, 0)], [62, 250, 1_000]);
        assert_eq!(TreeShare::below(None, (0, 0), (0, 1)).points(&fairshare), 0, "no share");
    }

    #[test]
    fn age_and_share_in_points() {
        let fairshare = Fairshare { age_weight: 1_000, weight: 1_000, ..Fairshare::default() };
        let age = |hours: i64| age_points(&fairshare, Span::from_secs(hours * 3_600));
        assert_eq!((age(-1), age(0), age(84), age(168), age(999)), (0, 0, 500, 1_000, 1_000));
        // Two users have one share each: points for no usage, the fair part, and all usage.
        let points = |used, share| share_points(&fairshare, (used, 100), (share, 2));
        assert_eq!((points(0, 1), points(50, 1), points(100, 1), points(0, 0)), (1_000, 500, 250, 0));
        assert_eq!(share_points(&fairshare, (0, 0), (1, 2)), 1_000);
    }
}
