//! Draw from the machine's management controller (BMC) by Redfish: `EnvironmentMetrics` of a chassis, or `Power` of
//! older ones.

use std::time::Duration;

use super::error::MeterError;
use super::json::{Answer, JsonError};
use super::{Meter, Reading, plausible};
use crate::access::Access;
use crate::http::{Http, Scheme};

/// Resources below a chassis that show watts, the newer first, with the path of the value.
const PLACES: [(&str, &str); 2] =
    [("EnvironmentMetrics", "/PowerWatts/Reading"), ("Power", "/PowerControl/0/PowerConsumedWatts")];

const HINT: &str = "this chassis shows no watts; ask another one below `/redfish/v1/Chassis`";

/// Draw of a chassis.
#[derive(Debug)]
pub struct Redfish {
    http: Http,
    chassis: String,
    /// Index of the place that answered last.
    place: usize,
}

impl Redfish {
    /// Makes a meter. `chassis` is an address such as `https://bmc1/redfish/v1/Chassis/1`.
    pub fn new(chassis: &str, access: &Access) -> Self {
        Self { http: Http::new(access, Scheme::Basic), chassis: chassis.to_owned(), place: 0 }
    }

    fn read_at(&mut self, (resource, pointer): (&str, &str)) -> Result<Reading, MeterError> {
        let url = format!("{}/{resource}", self.chassis);
        let value = self.http.get(&url)?;
        let draw = Answer { url: &url, value: &value, hint: HINT }.watts(pointer)?;
        plausible(draw, || url)
    }
}

impl Meter for Redfish {
    fn read(&mut self, _now: Duration) -> Result<Reading, MeterError> {
        let first = match self.read_at(PLACES[self.place]) {
            Err(error) if is_absent(&error) => error,
            other => return other,
        };
        let other = 1 - self.place;
        match self.read_at(PLACES[other]) {
            Err(second) if is_absent(&second) => Err(first),
            Err(second) => Err(second),
            Ok(reading) => {
                self.place = other;
                Ok(reading)
            }
        }
    }
}

/// Returns true if a place is missing or shows no watts: many controllers have `EnvironmentMetrics` with temperatures
/// only.
fn is_absent(error: &MeterError) -> bool {
    match error {
        MeterError::Http(error) => error.is_not_found(),
        MeterError::Json(error) => matches!(error, JsonError::Missing { .. }),
        _ => false,
    }
}
