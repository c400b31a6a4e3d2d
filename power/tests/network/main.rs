//! Meters on the network, against real servers on loopback that answer well, badly, slowly or not at all.

mod http;
mod tls;
mod web;
