//! Submit hosts, which act for their users: the first message of each connection names one.

use anyhow::{Context, Result, bail};
use limo_proto::{ClientToMaster, Connection, Frame, Greeted, MasterToClient};
use nix::unistd::geteuid;
use tokio::time::{Instant, timeout_at};

use super::entrant::Entrant;
use super::names::KnownUser;
use super::over_tls::refusal;
use super::{Arrival, Door};
use crate::controller::Caller;

type Line = Connection<ClientToMaster, MasterToClient>;

impl Door {
    /// Lets in the user for whom a submit host acts. Reads only its first message, until `deadline`.
    pub(super) async fn on_behalf(&self, greeted: Greeted, entrant: Entrant, deadline: Instant) -> Result<()> {
        let mut connection: Line = greeted.into_connection();
        let first = timeout_at(deadline, connection.reader.next()).await;
        let first = first.context("the submit host named no user in time")??;
        let asserted = match first {
            Some(Frame::Message(ClientToMaster::OnBehalf { uid, user })) => self.asserted(uid, &user).await?,
            _ => Err("a submit host must name the user for whom it acts: call it by lconf cluster relay".to_owned()),
        };
        let admitted = asserted.and_then(|caller| match self.admission.take(caller.uid, false) {
            Ok(place) => Ok((caller, place)),
            Err(full) => Err(full.to_string()),
        });
        let (caller, place) = match admitted {
            Ok(admitted) => admitted,
            Err(reason) => {
                if let Some(pass) = &entrant.pass {
                    self.audit.add(&refusal(pass, &reason));
                }
                let refused = MasterToClient::Refused { reason: reason.clone(), hint: None };
                connection.writer.send(&Frame::Message(refused)).await?;
                bail!(reason);
            }
        };
        // A master that stops admits no more callers.
        let _ = self.arrivals.send(Arrival::Client(connection, caller, place, entrant.pass)).await;
        Ok(())
    }

    /// Returns the caller for a user that a submit host names, or the reason of a refusal.
    async fn asserted(&self, uid: u32, user: &str) -> Result<Result<Caller, String>> {
        let known = self.names.of(uid).await?;
        Ok(check((uid, geteuid().as_raw()), user, &known).map(|()| Caller {
            uid,
            user: known.name,
            groups: known.groups,
            operator: false,
            may_only_ask: false,
        }))
    }
}

/// Checks that a submit host may act for a user, of whom this machine knows `known`. `own` is the user of this master.
fn check((uid, own): (u32, u32), user: &str, known: &KnownUser) -> Result<(), String> {
    if uid == 0 || uid == own || known.is_admin {
        return Err(format!(
            "a submit host may not act for {}: root and operators need their own certificates",
            known.name
        ));
    }
    if known.name != user {
        return Err(format!("user {uid} is {} on this machine, and {user} on the submit host", known.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submit_host_acts_for_users_that_both_machines_know_by_the_same_name() {
        let known = |name: &str, is_admin| KnownUser { name: name.to_owned(), is_admin, ..KnownUser::default() };
        let check = |uid, user, of| check((uid, 841), user, &of);
        assert_eq!(check(1000, "ada", known("ada", false)), Ok(()));
        let refused = |uid, user, of| check(uid, user, of).expect_err("refused");
        assert!(refused(1000, "ada", known("ada", true)).starts_with("a submit host may not act for ada"));
        assert!(refused(0, "root", known("root", false)).starts_with("a submit host may not act for root"));
        assert!(refused(841, "limo", known("limo", false)).starts_with("a submit host may not act for limo"));
        let reason = "user 1000 is bob on this machine, and ada on the submit host";
        assert_eq!(refused(1000, "ada", known("bob", false)), reason);
    }
}
