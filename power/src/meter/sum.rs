//! Sum of meters for different parts of a machine, such as processors and GPUs. A part that fails makes the sum fail:
//! without it the machine would seem to draw less. The operator must not choose overlapping parts.

use std::time::Duration;

use limo_model::Power;

use super::{Meter, MeterError, Reading, plausible};

/// Sum of several meters.
pub struct Sum {
    parts: Vec<Box<dyn Meter>>,
}

impl Sum {
    /// Makes a sum. A reading needs one from every part: one that fails makes the sum fail.
    pub fn new(parts: Vec<Box<dyn Meter>>) -> Self {
        Self { parts }
    }
}

impl Meter for Sum {
    fn read(&mut self, now: Duration) -> Result<Reading, MeterError> {
        // All parts are read, even if one fails, because counters must not wrap around unnoticed.
        let readings: Vec<_> = self.parts.iter_mut().map(|part| part.read(now)).collect();
        let (mut total, mut mean) = (Power::ZERO, None::<Duration>);
        let mut complete = true;
        for reading in readings {
            match reading? {
                Reading::NotYet => complete = false,
                Reading::Draw(draw) => total += draw,
                Reading::Mean { draw, over } => {
                    total += draw;
                    mean = Some(mean.map_or(over, |other| other.min(over)));
                }
            }
        }
        if !complete {
            return Ok(Reading::NotYet);
        }
        let draw = plausible(total, || "the sum of the meters".to_owned())?;
        // A present draw counts for the same time as the means beside it.
        Ok(mean.map_or(draw, |over| Reading::Mean { draw: total, over }))
    }
}
