//! The submit hook is asked about each new submission, before anything else is decided about it. The client's later
//! requests wait meanwhile, so its submissions keep their order.

use std::sync::Arc;

use limo_proto::{MasterToClient, SendExec, Text};

use super::dependencies::Wanted;
use super::lookup::Lookup;
use super::submit::check;
use super::{Controller, PeerId};
use crate::database::Database;
use crate::hook::{HookTurns, Hooked, SubmitHook, input};

/// A question to the hook.
#[derive(Debug)]
struct HookLookup {
    hook: SubmitHook,
    input: Vec<u8>,
    exec: Box<SendExec>,
    user: String,
    uid: u32,
    turns: Arc<HookTurns>,
}

impl Lookup for HookLookup {
    type Found = Hooked;

    const AT_ONCE: bool = true;

    async fn read(&self, _: &dyn Database) -> anyhow::Result<Self::Found> {
        let _turn = self.turns.take(self.uid).await;
        self.hook.ask(&self.input).await.map_err(|reason| anyhow::anyhow!(self.hook.fault(&reason)))
    }

    fn found(self, controller: &mut Controller, peer: PeerId, found: Self::Found) {
        controller.hooked(peer, (self.exec, &self.hook), found);
    }

    fn failed(&self, _: &mut Controller, reason: &str) {
        tracing::error!(user = self.user, "a job was refused: {reason}");
    }

    fn changes_something(&self) -> bool {
        true
    }
}

impl Controller {
    /// Asks the submit hook, if there is one, then continues with the submission.
    pub(super) fn ask_hook(&mut self, peer: PeerId, exec: Box<SendExec>) {
        // The site has accepted the job of a step.
        let Some(hook) = self.tx.settings.submit_hook.clone().filter(|_| exec.request.step.is_none()) else {
            return self.with_dependencies(peer, Wanted::Submission(exec));
        };
        let Some(caller) = self.caller(peer) else { return };
        let (user, uid) = (caller.user.clone(), caller.uid);
        let input = input((&user, uid, caller.operator), &caller.groups, &exec);
        let turns = Arc::clone(&self.hook_turns);
        self.ask(peer, HookLookup { hook, input, exec, user, uid, turns });
    }

    fn hooked(&mut self, peer: PeerId, (mut exec, hook): (Box<SendExec>, &SubmitHook), hooked: Hooked) {
        let answer = match hooked {
            Hooked::Accepted(answer) => answer,
            Hooked::Refused(reason) => return self.refuse(peer, reason, None),
        };
        let applied = answer.changes.apply(&mut exec.request);
        if let Err(reason) = applied.and_then(|()| check(&exec).map_err(|reason| format!("made a wrong job: {reason}")))
        {
            let reason = hook.fault(&reason);
            tracing::error!("a job was refused: {reason}");
            return self.refuse(peer, reason, None);
        }
        if !answer.warning.is_empty() {
            self.tell_client(peer, MasterToClient::Notice { text: Text::new(answer.warning) });
        }
        self.with_dependencies(peer, Wanted::Submission(exec));
    }
}
