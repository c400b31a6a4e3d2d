//! Backups in the controller. Only one backup exists at a time, and it ends with its client's connection.

use limo_proto::{Answer, BackupPartQuery, BackupReport};

use super::lookup::Lookup;
use super::queries::Serve;
use super::{Controller, Effect, PeerId};
use crate::database::Database;

/// The backup that is being made or fetched.
#[derive(Debug)]
pub(super) struct Backup {
    peer: PeerId,
    user: String,
    made: bool,
}

#[derive(Debug)]
struct MakeBackup;

impl Lookup for MakeBackup {
    type Found = BackupReport;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<BackupReport> {
        from.make_backup().await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, report: BackupReport) {
        controller.backup_made(peer, report);
    }

    fn failed(&self, controller: &mut Controller, _: &str) {
        controller.questions.backup = None;
    }
}

/// A part of a file of the copies.
#[derive(Debug)]
struct ReadBackup {
    file: u32,
    offset: u64,
}

impl Lookup for ReadBackup {
    type Found = Vec<u8>;

    async fn read(&self, from: &dyn Database) -> anyhow::Result<Vec<u8>> {
        from.backup_part(self.file, self.offset).await
    }

    fn found(self, controller: &mut Controller, peer: PeerId, bytes: Vec<u8>) {
        controller.say(peer, Answer::BackupPart(bytes));
    }
}

impl Serve for BackupPartQuery {
    fn serve(self, controller: &mut Controller, peer: PeerId) {
        controller.backup_part(peer, self.file, self.offset);
    }
}

impl Controller {
    pub(super) fn back_up(&mut self, peer: PeerId) {
        if let Some(Backup { user, .. }) = &self.questions.backup {
            let reason = format!("{user} is making a backup: only one is possible at a time");
            return self.refuse(peer, reason, Some("try again in a while"));
        }
        let Some(user) = self.caller(peer).map(|caller| caller.user.clone()) else { return };
        self.questions.backup = Some(Backup { peer, user, made: false });
        self.ask(peer, MakeBackup);
    }

    fn backup_made(&mut self, peer: PeerId, report: BackupReport) {
        if self.caller(peer).is_none() {
            self.questions.backup = None;
            return self.tx.effects.push(Effect::DropBackup);
        }
        if let Some(backup) = &mut self.questions.backup {
            backup.made = true;
        }
        self.say(peer, Answer::Backup(report));
    }

    fn backup_part(&mut self, peer: PeerId, file: u32, offset: u64) {
        if !self.questions.backup.as_ref().is_some_and(|backup| backup.peer == peer && backup.made) {
            return self.refuse(peer, "no backup was made on this connection", Some("lconf backup FILE"));
        }
        self.ask(peer, ReadBackup { file, offset });
    }

    /// Drops a disconnected client's backup. A backup that is still being made is dropped later.
    pub(super) fn backup_unwanted(&mut self, peer: PeerId) {
        if self.questions.backup.as_ref().is_some_and(|backup| backup.peer == peer && backup.made) {
            self.questions.backup = None;
            self.tx.effects.push(Effect::DropBackup);
        }
    }
}
