//! Resource names by the plugin's rules, and its patterns.

use std::fmt;

use tesela_model::resource::PREFIX;

/// How long a resource name may be in full.
const MOST: usize = 63;

/// A resource name that the plugin takes, prefix included: `nvidia.com/gpu`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceName(String);

/// Why the plugin refuses a resource name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceNameError {
    /// Longer than 63 characters in full.
    #[error("`{full}` has {} characters; a resource name may have 63, `nvidia.com/` included", full.len())]
    TooLong {
        /// The name with its prefix.
        full: String,
    },
    /// Another vendor's prefix: the plugin puts its own before it, and a second slash is no name.
    #[error("`{text}` has another prefix than `nvidia.com/`")]
    ForeignPrefix {
        /// The name as given.
        text: String,
    },
    /// Not a DNS subdomain behind the prefix.
    #[error("`{text}` is no resource name: behind the prefix only a-z, 0-9, `-` and `.` are allowed")]
    Characters {
        /// The name as given.
        text: String,
    },
}

impl ResourceName {
    /// A name by the plugin's rule: the prefix is added where it is absent; at most 63 characters in
    /// full; behind the prefix a DNS subdomain.
    ///
    /// # Errors
    /// The rule broken.
    pub fn parse(text: &str) -> Result<Self, ResourceNameError> {
        let short = text.strip_prefix(PREFIX).unwrap_or(text);
        let full = format!("{PREFIX}{short}");
        if full.len() > MOST {
            return Err(ResourceNameError::TooLong { full });
        }
        if short.contains('/') {
            return Err(ResourceNameError::ForeignPrefix { text: text.to_owned() });
        }
        if !is_subdomain(short) {
            return Err(ResourceNameError::Characters { text: text.to_owned() });
        }
        Ok(Self(full))
    }

    /// The name in full.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name behind the prefix.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }

    /// The name with `.shared` behind it, as `renameByDefault` advertises it. The plugin does not check
    /// its length again, so this can be longer than a [`ResourceName`] may be.
    #[must_use]
    pub fn shared(&self) -> String {
        format!("{}.shared", self.0)
    }

    /// True when the name with `.shared` is longer than the plugin's own rule allows.
    #[must_use]
    pub fn is_too_long_when_shared(&self) -> bool {
        self.0.len() + ".shared".len() > MOST
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|label| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    })
}

/// Whether a pattern of `resources` covers a whole text. `*` is the only wildcard; every other
/// character stands for itself (since v0.20.0; before, `1g.24gb` also covered `1g.24gb-me`).
#[must_use]
pub fn pattern_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
