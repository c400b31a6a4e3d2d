//! The loop of the master: passes all inputs to the controller, one after the other, and carries out its effects.
//! Makes no decision.

mod configuration;
mod lease;
mod sources;

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use limo_authority::Directory;
use limo_feeds::grid::Arbiter;
use limo_journal::LeaseLost;
use limo_model::{Currency, Epoch, Now, Time};
use limo_program::Notifier;
use limo_proto::{Alive, Frame, Identity, MasterToClient, MasterToNode, own_directory, raise_descriptor_limit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Sender, UnboundedReceiver, channel, unbounded_channel};
use tokio::time::Instant;

use crate::accounts::Accounts;
use crate::audit::Audit;
use crate::clock::{self, Clocks};
use crate::config::{Cli, ProgramSettings};
use crate::connection::Link;
use crate::controller::{Controller, Effect, Input, KEPT_GRID, KEPT_PRICES, Outside, PeerId};
use crate::feeds;
use crate::feeds::grid;
use crate::freed;
use crate::limits::Limits;
use crate::listen::{self, Arrival, Door, Place};
use crate::log_limits::{self, log_of};
use crate::logging::Log;
use crate::messenger::Messenger;
use crate::meters;
use crate::pace::Pace;
use crate::recover;
use crate::renewal;
use crate::signs::Signs;
use crate::store::Store;
use crate::wake::Waker;
use crate::web::{self, Page, Timings};
use configuration::Configuration;
use sources::{Happened, Sources};

/// Most frames of all connections that are read ahead of the controller; each at most 1 MiB, mostly 64 KiB.
const READ_AHEAD: usize = 256;

/// Most inputs per reading of the clock.
const AT_ONCE: usize = 256;

/// Longest wait for the journal at the end of the process.
const LAST_COMMIT: Duration = Duration::from_secs(10);

/// Runs the master until it is stopped.
///
/// # Errors
/// If it cannot start.
pub async fn run(cli: Cli, settings: ProgramSettings, log: Log) -> Result<()> {
    let descriptors = raise_descriptor_limit().context("cannot raise the limit of open files")?;
    own_directory(&settings.state_dir).context("the state directory is not safe")?;
    let devices = meters::open(&settings.controller.meters)?;
    let (answers, from_store) = unbounded_channel();
    let cluster = settings.tls.as_ref().map(listen::certified_cluster).transpose()?;
    let mut notifier = Notifier::from_env().context("cannot reach the service manager at NOTIFY_SOCKET")?;
    let (store, recovered) = lease::open_store(&settings, cluster, answers, &mut notifier).await?;
    let restored = recover::restore(recovered, now()).context("cannot restore the state from the journal")?;
    recover::agree_on_currency(&restored)?;
    let (clocks, clock) = Clocks::resume(restored.core.clock(), restored.last);
    let (entries, mismatches) = (restored.entries, restored.mismatches);
    tracing::info!(jobs = restored.live.len(), entries, mismatches, "state restored from the journal");
    let audit = Audit::open(&settings.state_dir).context("cannot open the audit log")?;
    let mut listeners = listen::bind(&settings.socket, settings.listen, &settings.state_dir).await?;
    if let Some(tls) = &settings.tls {
        listeners = listeners.over_tls(tls, &settings.state_dir, audit.clone()).context("cannot listen over TLS")?;
        tokio::spawn(renewal::keep(Directory::new(tls.dir.clone()), tls.life));
    }
    let identity =
        Identity { journal: restored.journal, epoch: Epoch(restored.generation), currency: Currency::agreed() };
    tracing::info!(cluster = %identity.journal.cluster, incarnation = %identity.journal.incarnation, epoch = %identity.epoch, "journal");
    let (kept, told) = (grid::kept(restored.kept.get(KEPT_GRID)), restored.kept.get(KEPT_PRICES).cloned());
    let timings = Timings::new().context("cannot count")?;
    let (arriving, arrivals) = channel(READ_AHEAD);
    let limits = settings.connections.within(descriptors.hard);
    let door = Door::new(&listeners, (identity, settings.admin_group.clone()), limits, audit.clone(), arriving);
    let (page, asked) = match settings.web {
        Some(address) => {
            let (page, asked) = web::start(address, timings.clone(), door.clone())?;
            let address = page.address();
            listen::write_address(&settings.state_dir.join("web-address"), &address.to_string())?;
            tracing::info!(%address, "serving the page and metrics");
            (Some(page), Some(asked))
        }
        None => (None, None),
    };
    let (telling, words) = channel(READ_AHEAD);
    // The sources end with this function.
    let _sources = grid::start(&settings.grid.sources, &kept, &settings.state_dir, telling).await?;
    let sources = settings.grid.sources.iter().map(|(source, _)| source.clone()).collect();
    let grid = Arbiter::new(sources, settings.grid.operator_priority, kept, clock.shown(clocks.now().at));
    let outside = Outside { grid, clock };
    let controller = Controller::new(restored, settings.controller.clone(), outside, store.has_ballast());
    freed::give_back();
    let (inputs, from_peers) = channel(READ_AHEAD);
    let listening = tokio::spawn(listen::serve(listeners, door));
    let feeds = settings.feeds.build()?;
    let telling = tokio::spawn(feeds::run(feeds, told, inputs.clone()));
    for device in devices {
        tokio::spawn(meters::watch(device, inputs.clone()));
    }
    let (nodes, clients) = (HashMap::new(), HashMap::new());
    let signs = Signs::new(Alive::new(settings.heartbeat));
    tokio::spawn(signs.clone().sweep());
    let (accounts, limits) = (Accounts::default(), settings.controller.limits);
    log_limits::configure(limits.log_lines);
    let (next_peer, to_write, pace) = (0, false, Pace::new(Instant::now()));
    let waker = Waker::new(inputs.clone());
    let messenger = Messenger::start();
    let mut shell = Shell {
        clocks,
        controller,
        store,
        inputs,
        signs,
        nodes,
        clients,
        accounts,
        limits,
        next_peer,
        to_write,
        pace,
        waker,
        messenger,
        audit,
        timings,
        page,
        committing: None,
        lost: None,
    };
    let sources = Sources {
        from_store,
        from_peers,
        arrivals,
        words,
        asked,
        hang_up: signal(SignalKind::hangup()).context("cannot receive SIGHUP")?,
        terminate: signal(SignalKind::terminate()).context("cannot receive SIGTERM")?,
        interrupt: signal(SignalKind::interrupt()).context("cannot receive SIGINT")?,
    };
    let configuration = Configuration { cli, settings, log };
    let mut from_store = shell.serve(sources, &configuration, &mut notifier).await?;
    notifier.stopping();
    listening.abort();
    // New callers then find no socket instead of a dead one. The file may already be gone.
    let _ = std::fs::remove_file(&configuration.settings.socket);
    telling.abort();
    shell.finish(&mut from_store).await;
    Ok(())
}

/// Returns the wall-clock time, for feeds, whose times are wall times.
pub fn now() -> Time {
    Time::from_unix_ms(clock::wall().unix_ms())
}

struct Shell {
    clocks: Clocks,
    controller: Controller,
    store: Store,
    inputs: Sender<Input>,
    signs: Signs,
    nodes: HashMap<PeerId, (Link<MasterToNode>, Place)>,
    clients: HashMap<PeerId, (Link<MasterToClient>, Place)>,
    accounts: Accounts,
    limits: Limits,
    next_peer: u64,
    /// True if the journal has a batch that it has not started.
    to_write: bool,
    /// Pace of queries.
    pace: Pace,
    waker: Waker,
    messenger: Messenger,
    audit: Audit,
    timings: Timings,
    /// The page, if it is served.
    page: Option<Page>,
    /// Begin of the commit that the journal is writing.
    committing: Option<Instant>,
    /// Set once another master has the lease: then nothing more is done.
    lost: Option<LeaseLost>,
}

impl Shell {
    /// Serves until a signal ends it; returns the receiver of the store's answers.
    ///
    /// # Errors
    /// If another master has the lease.
    async fn serve(
        &mut self,
        mut sources: Sources,
        configuration: &Configuration,
        notifier: &mut Notifier,
    ) -> Result<UnboundedReceiver<Input>, LeaseLost> {
        self.step(self.clocks.now(), Input::Timer);
        notifier.ready();
        loop {
            let turn = self.controller.has_turn().then(|| self.pace.due());
            let happened = sources.next(&self.clocks, self.controller.deadline(), turn).await;
            // The process may have been stopped for a while.
            if !sources.confirmed(&self.store).await? {
                return Ok(sources.from_store);
            }
            let woken = Instant::now();
            self.signs.alive.pulse.step(woken);
            notifier.alive(woken.into_std());
            let now = self.clocks.now();
            match happened {
                Happened::Input(input) => self.step(now, input),
                // This is handled below.
                Happened::Turn => {}
                Happened::Asked(asker) => {
                    // The caller may have gone.
                    let _ = asker.send((self.controller.figures(), (self.nodes.len(), self.clients.len())));
                }
                Happened::Arrived(arrival) => self.arrived(now, arrival),
                Happened::HangUp => {
                    if let Some(input) = configuration.again() {
                        self.step(now, input);
                    }
                }
                Happened::Stop => return Ok(sources.from_store),
            }
            for _ in 0..AT_ONCE {
                if std::mem::take(&mut self.to_write) {
                    // The journal writes from this thread, so the disk works while more input is taken.
                    tokio::task::yield_now().await;
                }
                let more = sources.from_store.try_recv().or_else(|_| sources.from_peers.try_recv());
                let Ok(input) = more else { break };
                self.step(now, input);
            }
            if let Some(lost) = self.lost.take() {
                return Err(lost);
            }
            // Queries progress by one slice per iteration, however much input arrives.
            let begin = Instant::now();
            if self.controller.has_turn() && self.pace.due() <= begin {
                self.step(now, Input::Turn);
                let end = Instant::now();
                self.pace.served(end, end - begin);
            }
        }
    }

    /// Commits the inputs taken so far, then closes the journal.
    async fn finish(mut self, from_store: &mut UnboundedReceiver<Input>) {
        tracing::info!("stopping; jobs continue on their nodes");
        self.step(self.clocks.now(), Input::Stop);
        let committed = tokio::time::timeout(LAST_COMMIT, async {
            while !self.controller.is_quiet() && self.lost.is_none() {
                let Some(input) = from_store.recv().await else { break };
                self.step(self.clocks.now(), input);
            }
            self.store.close().await;
        });
        if committed.await.is_err() {
            tracing::error!("the journal did not write the last events; the nodes will report them again");
        }
    }

    fn arrived(&mut self, now: Now, arrival: Arrival) {
        self.next_peer += 1;
        let peer = PeerId(self.next_peer);
        let (inputs, signs) = (self.inputs.clone(), self.signs.clone());
        match arrival {
            Arrival::Node(connection, place, pass) => {
                let name = pass.as_ref().map(|pass| pass.certificate.identity.name().to_owned());
                let link = Link::start(peer, connection, (inputs, Input::Node), (None, pass), signs);
                self.nodes.insert(peer, (link, place));
                self.step(now, Input::NodeConnected(peer));
                if let Some(name) = name {
                    self.step(now, Input::NodeCertified(peer, name));
                }
            }
            Arrival::Client(connection, caller, place, pass) => {
                let account = Some(self.accounts.of(caller.uid, caller.operator, &self.limits));
                let link = Link::start(peer, connection, (inputs, Input::Client), (account, pass), signs);
                self.clients.insert(peer, (link, place));
                self.step(now, Input::ClientConnected(peer, caller));
            }
        }
    }

    fn step(&mut self, now: Now, input: Input) {
        // The place is freed when the input has been handled.
        let (input, _place) = match input {
            Input::Placed(input, place) => (*input, Some(place)),
            input => (input, None),
        };
        match &input {
            Input::Gone(peer) => self.hang_up(*peer),
            Input::Committed(_) => {
                if let Some(begun) = self.committing.take() {
                    self.timings.commit(begun.elapsed());
                }
            }
            Input::Configured(settings) => {
                self.limits = settings.limits;
                self.accounts.configure(&self.limits);
                log_limits::configure(self.limits.log_lines);
            }
            _ => {}
        }
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.lost = self.lost.take().or_else(|| lease::loss(&input));
            if self.lost.is_some() {
                return;
            }
            let begin = Instant::now();
            let effects = self.controller.step(now, input);
            if effects.iter().any(|effect| matches!(effect, Effect::Commit(_))) {
                // Each commit has a round; `cargo xtask bench round` reads this line.
                let took = begin.elapsed();
                tracing::debug!(round_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX), "round");
                self.timings.round(took);
                self.committing = Some(Instant::now());
            }
            for effect in effects {
                inputs.extend(self.perform(effect));
            }
        }
    }

    /// Closes the connection of a peer to which nothing more can be sent.
    fn cut_off(&mut self, peer: PeerId, reason: &str) -> Input {
        self.log_hung_up(peer, reason);
        self.hang_up(peer);
        Input::Gone(peer)
    }

    fn log_hung_up(&self, peer: PeerId, reason: &str) {
        let user = self.clients.get(&peer).and_then(|(link, _)| link.user());
        log_of!(warn, user, "hung up", peer = peer.0, user, reason, "hung up");
    }

    fn hang_up(&mut self, peer: PeerId) {
        self.nodes.remove(&peer);
        self.clients.remove(&peer);
    }

    /// Carries out an effect; returns its immediate result.
    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::ToNode(peer, frame) => {
                let sent = self.nodes.get(&peer)?.0.send(frame);
                return sent.err().map(|reason| self.cut_off(peer, &reason));
            }
            Effect::ToClient(peer, frame) => {
                let place = match &frame {
                    Frame::Data(data) => Some((data.stream, data.offset)),
                    Frame::Message(_) => None,
                };
                return match (self.clients.get(&peer)?.0.send(frame), place) {
                    (Err(reason), _) => Some(self.cut_off(peer, &reason)),
                    (Ok(false), Some((stream, offset))) => Some(Input::Dropped(peer, stream, offset)),
                    (Ok(_), _) => None,
                };
            }
            Effect::WhenDrained(peer) => self.clients.get(&peer)?.0.tell_when_drained(),
            Effect::Close(peer, reason) => {
                self.log_hung_up(peer, &reason);
                self.hang_up(peer);
            }
            Effect::Commit(batch) => {
                self.store.commit(*batch);
                self.to_write = true;
            }
            Effect::Recover => self.store.recover(),
            Effect::RestoreBallast => self.store.restore_ballast(),
            Effect::Ask(ticket, question) => self.store.ask(ticket, question),
            Effect::Learn(lesson) => self.store.learn(*lesson),
            Effect::Observe(job, row) => self.store.observe(job, row),
            Effect::GiveBack => freed::give_back(),
            Effect::DropBackup => self.store.drop_backup(),
            Effect::Part(peer) => self.hang_up(peer),
            Effect::FindPage(peer, act) => {
                let report = self.page.as_ref().map(|page| page.report(act)).unwrap_or_default();
                return Some(Input::PageFound(peer, report));
            }
            Effect::Wake(node, order) => self.waker.wake(node, order),
            Effect::Tell(errand) => self.messenger.tell(*errand),
            Effect::Audit(entry) => self.audit.add(&entry),
        }
        None
    }
}
