//! Where carbon intensities come from: grams of carbon dioxide per kWh, as forecasts.

pub mod electricity_maps;
pub mod uk;
