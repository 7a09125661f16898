//! The thread that starts all programs of a cluster.
//!
//! A program asks the kernel to be killed when its parent dies (`PR_SET_PDEATHSIG`), and the kernel takes the *thread*
//! that started it for the parent. A test's thread ends with the test, one of an async runtime when it has been idle; this
//! one ends with the cluster.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};

type Job = (Command, Sender<io::Result<Child>>);

pub(crate) struct Keeper {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(crate) fn start() -> Result<Self> {
        let (jobs, given) = channel::<Job>();
        let thread = std::thread::Builder::new().name("testbed".to_owned()).spawn(move || {
            for (mut command, answer) in given {
                // Nobody waits for the answer only when the caller has gone, and then the child goes too.
                if let Err(unheard) = answer.send(command.spawn())
                    && let Ok(mut child) = unheard.0
                {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
        });
        Ok(Self { jobs: Some(jobs), thread: Some(thread.context("cannot start a thread")?) })
    }

    /// Starts a program.
    pub(crate) fn spawn(&self, command: Command) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let (answer, answered) = channel();
        let jobs = self.jobs.as_ref().context("the testbed has ended")?;
        jobs.send((command, answer)).context("the testbed's thread has ended")?;
        let child = answered.recv().context("the testbed's thread has ended")?;
        child.with_context(|| format!("cannot start `{name}`"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
