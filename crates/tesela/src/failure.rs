//! How a verb ends: exit codes, and messages with hints kept as data.

use std::fmt;

use tesela_formats::diagnostic::Diagnostics;

/// How a verb ended without failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything that was asked is done.
    Done,
    /// Some of it is not: unmet pods, or lint findings at or above the threshold.
    Partly,
    /// It was looked at and is not as it should be, or was tried and did not come about; the result says what.
    NotSo,
}

impl Outcome {
    /// The exit code of DESIGN 9.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Partly => 3,
            Self::NotSo => 1,
        }
    }
}

/// Whose fault a failure is; it decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Ours, or the machine's: exit code 1.
    Program,
    /// The input's or the usage's: exit code 2.
    Input,
}

/// Why a verb failed. Standard output has nothing on it then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    fault: Fault,
    messages: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// Wrong usage or invalid input. The message names the file and the place where there are such.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { fault: Fault::Input, messages: vec![message.into()], hints: Vec::new() }
    }

    /// Anything else that keeps the program from going on.
    pub(crate) fn program(message: impl Into<String>) -> Self {
        Self { fault: Fault::Program, messages: vec![message.into()], hints: Vec::new() }
    }

    /// With what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Several failures as one, in their order; `None` when there is none. A fault of the program outweighs one of
    /// the input.
    pub(crate) fn join(failures: Vec<Self>) -> Option<Self> {
        failures.into_iter().reduce(|mut all, more| {
            if more.fault == Fault::Program {
                all.fault = Fault::Program;
            }
            all.messages.extend(more.messages);
            for hint in more.hints {
                if !all.hints.contains(&hint) {
                    all.hints.push(hint);
                }
            }
            all
        })
    }

    /// The exit code of DESIGN 9.
    pub(crate) fn code(&self) -> u8 {
        match self.fault {
            Fault::Program => 1,
            Fault::Input => 2,
        }
    }
}

impl From<Diagnostics> for Failure {
    /// Everything that is wrong with a text, each with its place and its fix.
    fn from(list: Diagnostics) -> Self {
        let messages = list.iter().map(ToString::to_string).collect();
        Self { fault: Fault::Input, messages, hints: Vec::new() }
    }
}

/// `error: …`, a line for each message; `hint: …`, a line for each hint.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in &self.messages {
            writeln!(f, "error: {message}")?;
        }
        for hint in &self.hints {
            writeln!(f, "hint: {hint}")?;
        }
        Ok(())
    }
}
