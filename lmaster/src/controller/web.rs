//! The address of the page, and codes for browsers that may change something. The web server makes them.

use limo_proto::{Answer, WebQuery, WebReport};

use super::queries::Serve;
use super::{Controller, Effect, PeerId};

impl Serve for WebQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        let Some(caller) = controller.caller(peer) else { return };
        let (uid, may_only_ask) = (caller.uid, caller.may_only_ask);
        if self.act && may_only_ask {
            return controller.refuse(peer, "the certificate is of role read-only, which may only ask", None);
        }
        controller.tx.effects.push(Effect::FindPage(peer, self.act.then_some(uid)));
    }
}

impl Controller {
    pub(super) fn page_found(&mut self, peer: PeerId, report: WebReport) {
        self.say(peer, Answer::Web(report));
    }
}
