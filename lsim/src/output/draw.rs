//! `draw.csv`: the platform over time. Each change of a value makes a row, which is valid until the next.
//!
//! Units are watts, joules and the currency per MWh; times are seconds from the workload's start. A value that is unknown or
//! does not exist (no limit, budget or price) is empty. The caller hands over one sample per instant.

use limo_model::{Energy, Power, Time};

use super::line::LineBuffer;
use crate::record::Sample;

pub const COLUMNS: &str = "time_s,draw_w,believed_w,limit_w,lower_w,budget_released_j,budget_spent_j,budget_reserved_j,\
price_per_mwh,queued,running,idle,computing,off,switching_on,switching_off";

/// Writes one row, without its line break.
pub fn write(line: &mut LineBuffer, start: Time, sample: &Sample) {
    line.thousandths((sample.at - start).ms());
    line.comma();
    line.thousandths(sample.draw.mw());
    line.comma();
    line.thousandths(sample.believed.mw());
    line.comma();
    power(line, sample.limit);
    power(line, sample.lower);
    match sample.budget {
        Some(budget) => {
            energy(line, budget.released);
            energy(line, budget.spent);
            energy(line, budget.reserved);
        }
        None => line.raw(b",,,"),
    }
    if let Some(price) = sample.price {
        line.thousandths(price.milli_per_mwh());
    }
    let processors = &sample.processors;
    let counts = [
        sample.queued,
        sample.running,
        processors.idle,
        processors.computing,
        processors.off,
        processors.switching_on,
        processors.switching_off,
    ];
    for count in &counts {
        line.comma();
        line.unsigned(u64::from(*count));
    }
}

fn power(line: &mut LineBuffer, power: Option<Power>) {
    if let Some(power) = power.filter(|power| !power.is_unlimited()) {
        line.thousandths(power.mw());
    }
    line.comma();
}

fn energy(line: &mut LineBuffer, energy: Energy) {
    line.thousandths(energy.mj());
    line.comma();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{BudgetSample, ByState};
    use limo_model::Price;

    fn check(sample: &Sample, expected: &str) {
        let mut line = LineBuffer::default();
        write(&mut line, Time::from_unix_ms(5_000), sample);
        let row = String::from_utf8(line.bytes().to_vec()).expect("text");
        assert_eq!(row, expected);
        assert_eq!(row.split(',').count(), COLUMNS.split(',').count());
    }

    #[test]
    fn everything_and_nothing() {
        let all = Sample {
            at: Time::from_unix_ms(6_250),
            draw: Power::from_mw(190_738),
            believed: Power::from_mw(203_120),
            limit: Some(Power::from_watts(300)),
            lower: Some(Power::ZERO),
            budget: Some(BudgetSample {
                released: Energy::from_joules(600),
                spent: Energy::from_mj(500_500),
                reserved: Energy::from_joules(-20),
            }),
            price: Some(Price::from_milli_per_mwh(-83_040)),
            queued: 4,
            running: 3,
            processors: ByState { idle: 1, computing: 2, off: 5, switching_on: 6, switching_off: 7 },
        };
        check(&all, "1.25,190.738,203.12,300,0,600,500.5,-20,-83.04,4,3,1,2,5,6,7");
        let none = Sample { limit: Some(Power::MAX), lower: None, budget: None, price: None, ..all };
        check(&none, "1.25,190.738,203.12,,,,,,,4,3,1,2,5,6,7");
    }
}
