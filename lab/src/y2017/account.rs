//! The actual draw of the platform, from the states of its nodes, and the reading of its meter.
//!
//! The meter of the published platform has a fault: after a switch, it charges the energy of a node since its last
//! update at the draw of the new state. Only the scheduler sees this error; the published energies do not contain it.

use limo_model::{Energy, Power};

use super::counter::Window;
use super::intervals::Interval;
use lsim::record::{ByState, Switches};

/// Draws of a node, in mW (energy-budget-2017, table I). The draw of a switch is its energy divided by its time: 616.08
/// J in 6.1 s and 18,966.42 J in 151.52 s.
const DRAWS_MW: ByState<i64> =
    ByState { idle: 95_000, computing: 190_738, off: 9_750, switching_on: 125_174, switching_off: 100_997 };

/// The draw of a busy node.
pub const COMPUTING: Power = Power::from_mw(DRAWS_MW.computing);

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    Idle,
    Computing,
    Off,
    SwitchingOn,
    SwitchingOff,
}

fn of<T>(by_state: &mut ByState<T>, state: PowerState) -> &mut T {
    match state {
        PowerState::Idle => &mut by_state.idle,
        PowerState::Computing => &mut by_state.computing,
        PowerState::Off => &mut by_state.off,
        PowerState::SwitchingOn => &mut by_state.switching_on,
        PowerState::SwitchingOff => &mut by_state.switching_off,
    }
}

/// The account of the platform; see the module.
#[derive(Debug)]
pub struct Account {
    pub nodes: ByState<u32>,
    pub switches: Switches,
    window: Window,
    now: i64,
    draw_mw: i64,
    by_state_uj: ByState<i128>,
    in_window_uj: i128,
    fault: Option<Overcount>,
}

/// The excess in the meter's count.
#[derive(Debug)]
struct Overcount {
    /// Time of the last update of each node.
    updated: Vec<i64>,
    answered: i64,
    uj: i128,
}

impl Account {
    /// Makes an account that starts at time 0 with all nodes idle.
    pub fn new(nodes: u32, window: Window, has_fault: bool) -> Self {
        Self {
            nodes: ByState { idle: nodes, ..ByState::default() },
            switches: Switches::default(),
            window,
            now: 0,
            draw_mw: i64::from(nodes) * DRAWS_MW.idle,
            by_state_uj: ByState::default(),
            in_window_uj: 0,
            fault: has_fault.then(|| Overcount { updated: vec![0; nodes as usize], answered: 0, uj: 0 }),
        }
    }

    pub fn draw(&self) -> Power {
        Power::from_mw(self.draw_mw)
    }

    /// Adds up the energy until `now`, in ms.
    pub fn advance(&mut self, now: i64) {
        let ms = i128::from(now - self.now);
        let within = now.min(self.window.until) - self.now.max(self.window.from);
        self.in_window_uj += i128::from(self.draw_mw) * i128::from(within.max(0));
        self.now = now;
        for state in [
            PowerState::Idle,
            PowerState::Computing,
            PowerState::Off,
            PowerState::SwitchingOn,
            PowerState::SwitchingOff,
        ] {
            let mw = i64::from(*of(&mut self.nodes, state)) * *of(&mut { DRAWS_MW }, state);
            *of(&mut self.by_state_uj, state) += i128::from(mw) * ms;
        }
    }

    /// Changes the state of nodes at the current time.
    pub fn change(&mut self, at: Interval, from: PowerState, to: PowerState) {
        let more = *of(&mut { DRAWS_MW }, to) - *of(&mut { DRAWS_MW }, from);
        *of(&mut self.nodes, from) -= at.width();
        *of(&mut self.nodes, to) += at.width();
        self.draw_mw += more * i64::from(at.width());
        match to {
            PowerState::SwitchingOn => self.switches.on += u64::from(at.width()),
            PowerState::SwitchingOff => self.switches.off += u64::from(at.width()),
            _ => {}
        }
        let Some(fault) = &mut self.fault else { return };
        let updated = &mut fault.updated[at.first as usize..=at.last as usize];
        match to {
            PowerState::SwitchingOn | PowerState::SwitchingOff => {
                let ms: i64 = updated.iter().map(|updated| self.now - (*updated).max(fault.answered)).sum();
                fault.uj += i128::from(more) * i128::from(ms);
            }
            PowerState::Idle | PowerState::Off => updated.fill(self.now),
            // Busy nodes are switched only after their job has ended.
            PowerState::Computing => {}
        }
    }

    /// Returns the energy used by the meter's count, in uJ.
    pub fn answer(&mut self) -> i128 {
        let used = &self.by_state_uj;
        let used = used.idle + used.computing + used.off + used.switching_on + used.switching_off;
        let Some(fault) = &mut self.fault else { return used };
        fault.answered = self.now;
        used + fault.uj
    }

    pub fn by_state(&self) -> ByState<Energy> {
        let ByState { idle, computing, off, switching_on, switching_off } = self.by_state_uj;
        ByState {
            idle: energy(idle),
            computing: energy(computing),
            off: energy(off),
            switching_on: energy(switching_on),
            switching_off: energy(switching_off),
        }
    }

    pub fn in_window(&self) -> Energy {
        energy(self.in_window_uj)
    }
}

/// Converts uJ, rounded down.
pub fn energy(uj: i128) -> Energy {
    Energy::from_mj(i64::try_from(uj.div_euclid(1_000)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from: 5_000, until: 10_000, cap_mw: 0 };

    fn switched_off_after_9s(has_fault: bool) -> Account {
        let mut account = Account::new(4, WINDOW, has_fault);
        account.advance(2_000);
        account.change(Interval::new(0, 0), PowerState::Idle, PowerState::Computing);
        account.advance(7_000);
        account.change(Interval::new(0, 0), PowerState::Computing, PowerState::Idle);
        account.advance(9_000);
        account.change(Interval::new(0, 1), PowerState::Idle, PowerState::SwitchingOff);
        account
    }

    #[test]
    fn energy_is_counted_by_state_and_in_the_window() {
        let mut account = switched_off_after_9s(false);
        // The energy is 4 x 9 s less 5 s idle, and 5 s computing.
        assert_eq!(account.answer(), 31 * 95_000_000 + 5 * 190_738_000);
        account.advance(20_000);
        let by_state = account.by_state();
        assert_eq!(by_state.switching_off, Energy::from_mj(22 * 100_997));
        assert_eq!(by_state.idle, Energy::from_mj((31 + 22) * 95_000));
        // The window has 2 s of one busy node, 2 s of idle nodes, and 1 s of two switching nodes.
        assert_eq!(account.in_window(), Energy::from_mj((6 + 8 + 2) * 95_000 + 2 * 190_738 + 2 * 100_997));
        assert_eq!(account.draw(), Power::from_mw(2 * 95_000 + 2 * 100_997));
        assert_eq!(account.switches, Switches { on: 0, off: 2 });
    }

    #[test]
    fn the_meter_charges_the_time_before_a_switch_at_its_draw() {
        let sound = switched_off_after_9s(false).answer();
        let mut account = switched_off_after_9s(true);
        // Node 0 was updated 2 s ago, when its job ended. Node 1 was never updated.
        assert_eq!(account.answer() - sound, (2_000 + 9_000) * 5_997);
        // The answer updates all nodes.
        account.advance(10_000);
        account.change(Interval::new(2, 2), PowerState::Idle, PowerState::SwitchingOff);
        assert_eq!(account.answer() - sound - (2 * 95_000 + 2 * 100_997) * 1_000, 11_000 * 5_997 + 1_000 * 5_997);
    }
}
