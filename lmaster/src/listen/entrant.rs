//! A caller that is identified, by the kernel of this machine or by its certificate.

use limo_identity::CertifiedRole;
use limo_proto::{Principal, Role, Via};

use crate::enrol::Applicant;
use crate::pass::Pass;

/// A caller that is identified, with its rights.
#[derive(Debug)]
pub(super) struct Entrant {
    pub(super) uid: u32,
    /// True for root, the user of the master, and callers with such a certificate. Only these may run nodes.
    pub(super) is_operator: bool,
    /// The kind of its connection, for the log.
    pub(super) via: &'static str,
    /// The right of a caller with a certificate to stay.
    pub(super) pass: Option<Box<Pass>>,
}

impl Entrant {
    /// Makes the entrant of a user of this machine.
    pub(super) fn local(principal: Principal) -> Self {
        let uid = principal.uid;
        let via = match principal.via {
            Via::Unix { .. } => "unix",
            Via::Loopback => "loopback",
        };
        Self { uid, is_operator: uid == 0 || uid == nix::unistd::geteuid().as_raw(), via, pass: None }
    }

    /// Checks that the caller may greet with this role.
    pub(super) fn may_be(&self, role: Role, user: &str) -> Result<(), String> {
        match (role, self.certified()) {
            (Role::Node, None) if !self.is_operator => {
                Err(format!("{user} may not run nodes: only root and the user that runs the master may"))
            }
            (Role::Node, Some(other)) if other != CertifiedRole::Node => {
                Err(format!("the certificate is of role {other}, which may not run nodes"))
            }
            (Role::Client, Some(CertifiedRole::Node)) => {
                Err("the certificate is of role node, which may only run a node".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the role of the caller's certificate.
    pub(super) fn certified(&self) -> Option<CertifiedRole> {
        self.pass.as_ref().map(|pass| pass.certificate.identity.role())
    }

    /// Returns the caller as one that wants a certificate.
    pub(super) fn applicant(&self, name: String, is_operator: bool) -> Applicant {
        match &self.pass {
            Some(pass) => {
                let identity = Box::new(pass.certificate.identity.clone());
                Applicant::Member { identity, from: pass.from.clone() }
            }
            None => Applicant::User { uid: self.uid, name, is_operator },
        }
    }
}
