//! Limits the handshakes at a time, of all callers and of each address, because a caller is unknown before it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most handshakes at a time.
const ALL: usize = 256;

/// Most handshakes of one address at a time. Others can take the rest meanwhile.
const OF_ONE: usize = 32;

/// The handshakes of all callers.
#[derive(Debug, Clone, Default)]
pub(super) struct Handshakes(Arc<Mutex<HandshakeCounts>>);

#[derive(Debug, Default)]
struct HandshakeCounts {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A handshake, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Handshake {
    counts: Handshakes,
    address: IpAddr,
}

impl Handshakes {
    /// Begins a handshake; `None` if too many run.
    pub(super) fn begin(&self, from: IpAddr) -> Option<Handshake> {
        let address = network(from);
        let mut counts = self.lock();
        let of_one = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.all >= ALL || of_one >= OF_ONE {
            return None;
        }
        counts.all += 1;
        counts.by_address.insert(address, of_one + 1);
        Some(Handshake { counts: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, HandshakeCounts> {
        // The counts are complete at every moment, even if a thread panicked with the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        counts.all -= 1;
        match counts.by_address.get_mut(&self.address) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.by_address.remove(&self.address)),
        }
    }
}

/// Returns the address by which a caller counts. One machine may have all addresses of an IPv6 network of 64 bits.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let handshakes = Handshakes::default();
        let first = address("192.0.2.1");
        let mut open: Vec<_> = (0..32).map(|_| handshakes.begin(first).expect("room")).collect();
        assert!(handshakes.begin(first).is_none(), "32 run");
        assert!(handshakes.begin(address("::ffff:192.0.2.1")).is_none(), "the same address in another form");
        // 32 and 7 times 32 are 256.
        for other in 2..9 {
            open.extend((0..32).map(|_| handshakes.begin(address(&format!("192.0.2.{other}"))).expect("room")));
        }
        assert!(handshakes.begin(address("192.0.2.9")).is_none(), "256 run");
        open.truncate(31);
        assert!(handshakes.begin(first).is_some());
        drop(open);
        assert!(handshakes.lock().all == 0 && handshakes.lock().by_address.is_empty());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let handshakes = Handshakes::default();
        let host = |host| address(&format!("2001:db8::{host:x}"));
        let open: Vec<_> = (1..33).map(|number| handshakes.begin(host(number)).expect("room")).collect();
        assert!(handshakes.begin(host(33)).is_none());
        assert!(handshakes.begin(address("2001:db8:0:1::1")).is_some());
        drop(open);
    }
}
