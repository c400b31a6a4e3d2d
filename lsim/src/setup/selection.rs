//! The selected part of a workload.

use limo_trace::filter::{Carried, Window as Filter};
use limo_trace::{Treatment, Workload};

use super::{Date, Extent, Setup, Share};

impl Setup {
    /// Takes the selected part of a workload: the window first, then users, then the first jobs, then the load.
    pub fn part(&self, mut workload: Workload) -> Workload {
        if let Some(Date(start)) = self.start {
            workload.start = Some(start);
        }
        if let Some(Extent { from, until }) = self.window {
            workload = workload.window(Filter { from, until, rebased: true, carried: Carried::No });
        }
        if !self.users.is_empty() {
            workload = workload.of_users(&self.users);
        }
        if let Some(count) = self.first {
            workload = workload.first(count);
        }
        if let Some(load) = self.load {
            workload = workload.at_load(load.numerator, load.denominator);
        }
        let mut treat = |share: Option<Share>, way: fn(&mut Treatment)| {
            if let Some(Share(hundredths)) = share {
                workload.treat(hundredths, way);
            }
        };
        treat(self.suspendable, |treatment| treatment.may_suspend = true);
        treat(self.requeueable, |treatment| treatment.may_requeue = true);
        treat(self.fillers, |treatment| treatment.filler = true);
        treat(self.explorable, |treatment| treatment.explore = true);
        workload
    }
}
