//! A client of the master inside this process, so that figures include the master without the start of a program.

use anyhow::{Context, Result, bail};
use limo_model::{JobId, Request};
use limo_proto::{ClientToMaster, Connection, Frame, Io, Launch, MasterToClient, Role, SendExec, Trusted, connect};

pub struct Caller {
    connection: Connection<MasterToClient, ClientToMaster>,
}

impl Caller {
    /// Connects to the master.
    ///
    /// # Errors
    /// If the master does not answer.
    pub async fn connect(address: &str) -> Result<Self> {
        Ok(Self {
            connection: connect(&address.parse()?, Role::Client, &Trusted::own())
                .await
                .context("cannot reach the master")?,
        })
    }

    /// Submits a detached job with an environment of typical size.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, request: Request) -> Result<()> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| anyhow::anyhow!("no randomness: {error}"))?;
        let launch = Launch {
            argv: vec![b"true".to_vec()],
            cwd: b"/".to_vec(),
            env: (0..20).map(|index| (format!("VARIABLE_{index}").into_bytes(), vec![b'x'; 40])).collect(),
            umask: 0o022,
            io: Io::Detached,
            ..Launch::default()
        };
        let exec = SendExec { key, request, launch, again: false };
        Ok(self.connection.writer.send(&Frame::Message(ClientToMaster::SendExec(Box::new(exec)))).await?)
    }

    /// Returns the number of the next job that is on disk.
    ///
    /// # Errors
    /// If the master refuses it, or the connection breaks.
    pub async fn accepted(&mut self) -> Result<JobId> {
        loop {
            match self.connection.reader.next().await?.context("the master closed the connection")? {
                Frame::Message(MasterToClient::Accepted { job }) => return Ok(job),
                Frame::Message(MasterToClient::Refused { reason, .. }) => bail!("the master refused a job: {reason}"),
                _ => {}
            }
        }
    }

    /// Submits a job, and waits until it is on disk.
    ///
    /// # Errors
    /// The same as for [`Caller::send`] and [`Caller::accepted`].
    pub async fn submit(&mut self) -> Result<JobId> {
        self.send(Request { name: "true".into(), ..Request::one_core("true") }).await?;
        self.accepted().await
    }
}
