//! Meters and caps on the network, against real servers on loopback that answer well, badly, slowly or not at all.

mod http;
mod plugs;
mod redfish;
mod redfish_cap;
mod tls;
mod web;
