//! What a name may look like. Rules: Kubernetes, "Object Names and IDs" and "Labels and Selectors".

/// What a text is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRule {
    /// Node and workload names (RFC 1123 subdomain).
    Subdomain,
    /// Namespaces (RFC 1123 label).
    Label,
    /// The key of a node label or taint.
    LabelKey,
    /// The value of a node label; may be empty.
    LabelValue,
    /// Tenants: a label value that is not empty.
    Tenant,
    /// Kinds of owners, such as `Deployment`.
    Kind,
}

impl NameRule {
    /// The rule in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Subdomain => {
                "use lower-case letters, digits, `-` and `.`, begin and end with a letter or digit, at most 253 characters"
            }
            Self::Label => {
                "use lower-case letters, digits and `-`, begin and end with a letter or digit, at most 63 characters"
            }
            Self::LabelKey => {
                "use `name` or `domain/name`: letters, digits, `-`, `_` and `.`, at most 63 characters behind the slash"
            }
            Self::LabelValue | Self::Tenant => {
                "use letters, digits, `-`, `_` and `.`, begin and end with a letter or digit, at most 63 characters"
            }
            Self::Kind => "use a Kubernetes kind such as Deployment, StatefulSet, Job or Pod",
        }
    }

    /// Whether a text follows the rule.
    pub(super) fn holds(self, text: &str) -> bool {
        match self {
            Self::Subdomain => is_subdomain(text),
            Self::Label => is_dns_label(text, 63),
            Self::LabelKey => match text.split_once('/') {
                Some((domain, name)) => is_subdomain(domain) && is_label_value(name),
                None => is_label_value(text),
            },
            Self::LabelValue => text.is_empty() || is_label_value(text),
            Self::Tenant => is_label_value(text),
            Self::Kind => {
                text.len() <= 63
                    && text.starts_with(|c: char| c.is_ascii_uppercase())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric())
            }
        }
    }

    /// A right spelling that is near, if there is one.
    pub(super) fn nearest(self, text: &str) -> Option<String> {
        let trimmed = text.trim();
        let near = match self {
            Self::Kind => {
                const KINDS: [&str; 7] =
                    ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"];
                crate::diagnostic::nearest(trimmed, KINDS)?.to_owned()
            }
            Self::Subdomain | Self::Label => trimmed.to_lowercase().replace(['_', ' '], "-"),
            Self::LabelKey | Self::LabelValue | Self::Tenant => trimmed.replace(' ', "-"),
        };
        (near != text && !near.is_empty() && self.holds(&near)).then_some(near)
    }
}

fn is_dns_label(text: &str, most: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= most
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|part| is_dns_label(part, 253))
}

fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_by_rule() {
        use NameRule::{Kind, Label, LabelKey, LabelValue, Subdomain, Tenant};
        for (rule, right, wrong) in [
            (Subdomain, vec!["a", "gpu-1.example.com", "9"], vec!["", "A", "-a", "a-", "a..b", "a_b", "ä"]),
            (Label, vec!["team-a", "0"], vec!["a.b", "", "Team"]),
            (
                LabelKey,
                vec!["zone", "nvidia.com/gpu.product", "A_b"],
                vec!["", "/a", "a/", "a/b/c", "B.com/x", "a b"],
            ),
            (LabelValue, vec!["", "true", "NVIDIA-A30", "a_b.c"], vec!["-a", "a b", "a/b"]),
            (Tenant, vec!["research"], vec!["", "a b"]),
            (Kind, vec!["Deployment", "RayCluster"], vec!["deployment", "", "Pod/x"]),
        ] {
            for text in right {
                assert!(rule.holds(text), "{rule:?} {text}");
            }
            for text in wrong {
                assert!(!rule.holds(text), "{rule:?} {text}");
            }
        }
        assert_eq!(Subdomain.nearest("GPU_Node 1").as_deref(), Some("gpu-node-1"));
        assert_eq!(Kind.nearest("deployment").as_deref(), Some("Deployment"));
        assert_eq!(Label.nearest("ä"), None);
    }
}
