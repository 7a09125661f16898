//! Why a plan cannot be rendered.

/// Why a plan cannot be rendered. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The plan's header is not one this version reads.
    #[error(
        "`{key}` of the plan is `{value}`, expected `{expected}`: give the output of `tesela plan --format json`"
    )]
    Header {
        /// `apiVersion` or `kind`.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A name breaks the rule of Kubernetes and must not reach a manifest or a script.
    #[error(
        "`{value}` cannot be a name in `{key}` of the plan; the rule is {rule}: correct the plan's input and plan again"
    )]
    Name {
        /// Where in the plan.
        key: &'static str,
        /// The text, shortened.
        value: String,
        /// The rule in words.
        rule: &'static str,
    },
    /// Two parts of the plan contradict each other.
    #[error("the plan contradicts itself: {what}; plan again instead of editing the plan by hand")]
    Contradiction {
        /// What contradicts what.
        what: String,
    },
    /// The config format of NVIDIA's programs cannot say this.
    #[error("node {node}: {what}; {fix}")]
    NotExpressible {
        /// The node.
        node: String,
        /// What cannot be said.
        what: String,
        /// What to do.
        fix: &'static str,
    },
    /// A ConfigMap of the cluster has an entry of our name and other content.
    #[error(
        "ConfigMap {namespace}/{name} already has `{entry}` with other content; remove or rename that entry, then render again"
    )]
    Clash {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The entry.
        entry: String,
    },
    /// Entries cannot be added to the text of a ConfigMap without touching the others.
    #[error(
        "ConfigMap {namespace}/{name}, key `{key}`: {what}; write `mig-configs` as a plain mapping with one entry per line, then render again"
    )]
    Unmergeable {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key under `data`.
        key: String,
        /// What is in the way.
        what: String,
    },
    /// YAML could not be written.
    #[error("cannot write {what} as YAML: {cause}")]
    Yaml {
        /// The object.
        what: String,
        /// The serializer's message.
        cause: String,
    },
}
