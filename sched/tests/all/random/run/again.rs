//! Repeats the same calls: on another core, from a snapshot, and without the data that snapshots omit.

use limo_model::{Preset, Time};
use limo_sched::{Core, Event, Options, State};

use super::Run;
use crate::world::Call;

impl Run {
    /// Checks that the policy would not have acted in rounds in which it was not called.
    pub(super) fn check_asked(&self) {
        let (now, mut core) = (self.world.now, self.world.core.clone());
        let commands = core.clone().round(now).commands;
        core.apply(now, &Event::Readings { draws: Vec::new() }).expect("nothing was read");
        assert_eq!(commands, core.round(now).commands, "the policy was not asked");
    }

    /// Checks that the same calls to another core give the same answers and the same state, byte for byte: from the
    /// start, and from a snapshot. Equal rounds are equal in serde's output.
    pub(super) fn check_replay(&self, preset: Preset, options: Options) {
        let mut core = Core::new(Time::from_unix_ms(0), preset, options);
        let half = self.world.calls.len() / 2;
        for (index, call) in self.world.calls.iter().enumerate() {
            if index == half {
                let text = serde_json::to_string(core.state()).expect("a snapshot");
                core = Core::from_state(serde_json::from_str::<State>(&text).expect("read back"));
            }
            repeat(&mut core, call);
        }
        assert!(core == self.world.core, "another state");
        let bytes = |core: &Core| serde_json::to_vec(core.state()).expect("a snapshot");
        assert!(bytes(&core) == bytes(&self.world.core), "the same state in other bytes");
    }

    /// Does the same check after dropping, before each call, all data that a snapshot omits: an index is a cache.
    pub(super) fn check_forgetful(&self, preset: Preset, options: Options) {
        let mut core = Core::new(Time::from_unix_ms(0), preset, options);
        for call in &self.world.calls {
            core = Core::from_state(core.state().clone());
            repeat(&mut core, call);
        }
        assert!(core == self.world.core, "another state");
    }
}

fn repeat(core: &mut Core, call: &Call) {
    match call {
        Call::Apply(at, event) => core.apply(*at, event).expect("it was accepted before"),
        Call::Round(round) => {
            let again = core.round(round.now);
            if again != *round {
                assert_eq!(again, *round, "another round");
            }
        }
    }
}
