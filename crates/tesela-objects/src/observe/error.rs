//! What can be wrong with a cluster's JSON, each with the place and the way out.

/// The command whose output is expected.
pub(super) const COMMAND: &str = "kubectl get nodes,pods -A -o json";

/// Why an input cannot be read as Kubernetes objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObserveError {
    /// Nothing but white space.
    #[error("{file}: the input is empty; pipe in what `{COMMAND}` prints")]
    Empty {
        /// Name of the input.
        file: String,
    },
    /// Text of another kind: a table, YAML, UTF-16, a message of kubectl.
    #[error("{file}:1:1: this is {found}, not JSON; {hint}")]
    NotJson {
        /// Name of the input.
        file: String,
        /// What it looks like.
        found: &'static str,
        /// What to do.
        hint: String,
    },
    /// The JSON ends too early.
    #[error(
        "{file}:{line}:{column}: the JSON is cut off here ({last}); save the output again and check that the command that wrote it ended well"
    )]
    Truncated {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The last object that is whole.
        last: String,
    },
    /// No JSON, or a value that a Kubernetes object cannot have there.
    #[error("{file}:{line}:{column}: {message} ({last})")]
    Json {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
        /// The last object that is whole.
        last: String,
    },
    /// The API server's answer is a failure.
    #[error("{file}: the API server answered with a failure: {message}; mend that and run `{COMMAND}` again")]
    Refused {
        /// Name of the input.
        file: String,
        /// The server's message.
        message: String,
    },
    /// Objects, but none that tells of nodes or pods.
    #[error("{file}: holds {found}, but no Node and no Pod; run `{COMMAND}`")]
    WrongKinds {
        /// Name of the input.
        file: String,
        /// Kinds found, with their counts.
        found: String,
    },
    /// A list without items.
    #[error(
        "{file}: the list has no items; run `{COMMAND}`, and check the context with `kubectl config current-context`"
    )]
    NoItems {
        /// Name of the input.
        file: String,
    },
    /// Pods, but no nodes in any input.
    #[error(
        "{files}: {pods} pods, but no nodes, so the GPUs are not known; run `{COMMAND}` (nodes are cluster-wide: listing them may need another role)"
    )]
    NoNodes {
        /// Names of the inputs.
        files: String,
        /// Pods found.
        pods: usize,
    },
    /// The input cannot be read.
    #[error("{file}: cannot be read: {message}")]
    Io {
        /// Name of the input.
        file: String,
        /// The system's message.
        message: String,
    },
}
