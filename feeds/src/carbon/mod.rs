//! Sources of carbon intensities: forecasts in grams of carbon dioxide per kWh.

pub mod electricity_maps;
pub mod uk;
