//! The relation of the cluster's time to wall time. Limits, prices, budgets, reservations, begins and deadlines have
//! wall times, because people or the grid set them. The state keeps them in cluster time, so that a decision never
//! depends on a wall clock. They move when the offset changes. Requests, which jobs share, keep wall times and are
//! read through [`Clock::cluster`].

use limo_model::{Budgets, Curve, Reservation, Span, Time, Wall, Window};
use serde::{Deserialize, Serialize};

/// Wall time relative to cluster time, and the source of the cluster's time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// Wall time minus cluster time.
    pub offset: Span,
    /// Boot id of the kernel with the clock of the cluster's time; empty until the first is known.
    pub boot: String,
    /// The cluster's time when that kernel booted.
    pub since: Time,
}

impl Clock {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the wall time at a moment of cluster time.
    pub fn wall(&self, at: Time) -> Wall {
        Wall::from_unix_ms(self.shown(at).unix_ms())
    }

    /// Converts to wall time, for a message or a record.
    pub fn shown(&self, at: Time) -> Time {
        at.moved(self.offset)
    }

    /// Converts the wall time of a message or a request to the cluster's time.
    pub fn cluster(&self, wall: Time) -> Time {
        wall.moved(self.back())
    }

    /// Returns the offset from wall time to cluster time.
    fn back(&self) -> Span {
        Span::ZERO - self.offset
    }

    /// Converts a curve of wall time to cluster time.
    pub(crate) fn curve<T: Clone>(&self, wall: &Curve<T>) -> Curve<T> {
        wall.moved(self.back())
    }

    pub(crate) fn budgets(&self, wall: &Budgets) -> Budgets {
        wall.moved(self.back())
    }

    pub(crate) fn reservation(&self, wall: &Reservation) -> Reservation {
        wall.moved(self.back())
    }

    /// Converts a curve of the state to wall time.
    pub fn shown_curve<T: Clone>(&self, curve: &Curve<T>) -> Curve<T> {
        curve.moved(self.offset)
    }

    /// Converts budgets of the state to wall time.
    pub fn shown_budgets(&self, budgets: &Budgets) -> Budgets {
        budgets.moved(self.offset)
    }

    /// Converts a reservation of the state to wall time.
    pub fn shown_reservation(&self, reservation: &Reservation) -> Reservation {
        reservation.moved(self.offset)
    }

    /// Returns the end of the day, week or month that contains `now`, by the calendar of the wall clock.
    pub(crate) fn window_end(&self, window: Window, now: Time) -> Time {
        self.cluster(window.end(self.shown(now)))
    }
}
