//! Power limit of a whole machine, by its management controller over Redfish.
//!
//! A chassis has it in `EnvironmentMetrics` (`PowerLimitWatts`), older ones in `Power` (`PowerControl`). The first
//! reports its range; for the second the range must be given. Limits are whole watts and outlive the machine's boot.

use limo_model::Power;
use serde_json::{Value, json};

use super::{Cap, CapError, Originals, checked};
use crate::access::Access;
use crate::http::{Http, HttpError, Scheme};
use crate::meter::json::{Answer, JsonError};

/// This allows for controllers that round limits.
const TOLERANCE: Power = Power::from_watts(1);

const HINT: &str = "this chassis has no power limit; ask another one below `/redfish/v1/Chassis`";

/// Cap on one chassis.
#[derive(Debug)]
pub struct RedfishCap {
    http: Http,
    chassis: String,
    range: Option<(Power, Power)>,
}

/// Place of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Environment,
    Power,
}

impl Form {
    const ALL: [Self; 2] = [Self::Environment, Self::Power];

    fn resource(self) -> &'static str {
        match self {
            Self::Environment => "EnvironmentMetrics",
            Self::Power => "Power",
        }
    }

    /// Returns the path of the object with the limit.
    fn pointer(self) -> &'static str {
        match self {
            Self::Environment => "/PowerLimitWatts",
            Self::Power => "/PowerControl/0/PowerLimit",
        }
    }

    /// Returns the path of the limit in that object.
    fn limit(self) -> &'static str {
        match self {
            Self::Environment => "SetPoint",
            Self::Power => "LimitInWatts",
        }
    }

    /// Returns the members of that object that are set and restored.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Environment => &["SetPoint", "ControlMode"],
            Self::Power => &["LimitInWatts"],
        }
    }

    fn with_limit(self, watts: i64) -> Value {
        match self {
            Self::Environment => json!({ "SetPoint": watts, "ControlMode": "Automatic" }),
            Self::Power => json!({ "LimitInWatts": watts }),
        }
    }

    /// Returns the body of a change.
    fn body(self, settings: &Value) -> Value {
        match self {
            Self::Environment => json!({ "PowerLimitWatts": settings }),
            Self::Power => json!({ "PowerControl": [{ "PowerLimit": settings }] }),
        }
    }
}

impl RedfishCap {
    /// Makes a cap. `chassis` is an address such as `https://bmc1/redfish/v1/Chassis/1`.
    pub fn new(chassis: &str, access: &Access, range: Option<(Power, Power)>) -> Self {
        Self { http: Http::new(access, Scheme::Basic), chassis: chassis.to_owned(), range }
    }

    fn url(&self, form: Form) -> String {
        format!("{}/{}", self.chassis, form.resource())
    }

    fn control(&self, form: Form) -> String {
        format!("{}{}", self.url(form), form.pointer())
    }

    /// Reads the object with the limit.
    fn held(&mut self, form: Form) -> Result<Value, CapError> {
        let url = self.url(form);
        let value = self.http.get(&url)?;
        Ok(Answer { url: &url, value: &value, hint: HINT }.at(form.pointer())?.clone())
    }

    /// Finds the form of the chassis, and its present value.
    fn find(&mut self) -> Result<(Form, Value), CapError> {
        let mut absent = None;
        for form in Form::ALL {
            match self.held(form) {
                Err(error) if is_absent(&error) => absent = Some(error),
                other => return other.map(|held| (form, held)),
            }
        }
        // One of the forms was tried, so `absent` is set.
        Err(absent.unwrap_or(CapError::NoLimit { place: self.chassis.clone() }))
    }

    /// Writes `settings`, and reads them back.
    fn write(&mut self, form: Form, settings: &Value) -> Result<(), CapError> {
        let url = self.url(form);
        self.http.patch(&url, &form.body(settings))?;
        let held = self.held(form)?;
        let watts = |value: &Value| value[form.limit()].as_f64().map(|watts| Power::from_mw((watts * 1000.0) as i64));
        let disabled = |value: &Value| value["ControlMode"] == "Disabled";
        match (watts(settings), watts(&held)) {
            (Some(wanted), Some(found)) if wanted.mw().abs_diff(found.mw()) > TOLERANCE.mw().unsigned_abs() => {
                Err(CapError::NotKept { place: url, wanted, found })
            }
            (Some(wanted), _) if disabled(&held) && !disabled(settings) => {
                Err(CapError::Disabled { place: url, wanted })
            }
            (Some(wanted), None) => Err(CapError::Disabled { place: url, wanted }),
            (None, Some(found)) if !disabled(&held) => Err(CapError::StillCapped { place: url, found }),
            _ => Ok(()),
        }
    }
}

impl Cap for RedfishCap {
    fn range(&mut self) -> Result<(Power, Power), CapError> {
        let (form, held) = self.find()?;
        let url = self.url(form);
        let bound = |name: &str| {
            let answer = Answer { url: &url, value: &held, hint: HINT };
            Some(&held[name]).filter(|value| !value.is_null()).map(|value| answer.number(name, value)).transpose()
        };
        let told = bound("AllowableMin")?.zip(bound("AllowableMax")?);
        let (low, high) = self.range.or(told).ok_or_else(|| CapError::NoRange { place: url.clone() })?;
        let (lowest, highest) = told.unwrap_or((low, high));
        checked(|| url.clone(), (low.max(lowest), high.min(highest)))
    }

    fn capture(&mut self) -> Result<Originals, CapError> {
        let (form, held) = self.find()?;
        // A missing member cannot be restored; a missing limit means no limit.
        let settings = form.settings().iter().filter(|name| **name == form.limit() || !held[**name].is_null());
        let settings: serde_json::Map<String, Value> =
            settings.map(|name| ((*name).to_owned(), held[*name].clone())).collect();
        Ok(Originals::from([(self.control(form), Value::Object(settings).to_string())]))
    }

    fn set(&mut self, limit: Power) -> Result<(), CapError> {
        let (form, _) = self.find()?;
        // Limits are whole watts, and never above the requested limit.
        self.write(form, &form.with_limit(limit.mw() / 1000))
    }

    fn restore(&mut self, control: &str, value: &str) -> Result<(), CapError> {
        let captured = || CapError::Captured { control: control.to_owned(), value: value.to_owned() };
        let form = Form::ALL.into_iter().find(|form| self.control(*form) == control).ok_or_else(captured)?;
        let settings: Value = serde_json::from_str(value).map_err(|_| captured())?;
        if !settings.is_object() {
            return Err(captured());
        }
        self.write(form, &settings)
    }
}

/// Returns true if the chassis does not have the form, or has no limit in it.
fn is_absent(error: &CapError) -> bool {
    match error {
        CapError::Http(error) => error.is_not_found(),
        CapError::Json(error) => matches!(error, JsonError::Missing { .. }),
        _ => false,
    }
}

impl From<HttpError> for CapError {
    fn from(error: HttpError) -> Self {
        Self::Http(Box::new(error))
    }
}
