//! Names of profiles and products, and the nearest right spelling of a wrong one.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What follows the size in a profile name (grammar of mig-parted's profile parser).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileAttribute {
    /// `+me`: with the media engines (decoder, encoder, JPEG, OFA) an instance of this size may get.
    Media,
    /// `+me.all`: with all media engines of the GPU.
    AllMedia,
    /// `+gfx`: with graphics.
    Graphics,
    /// `-me`: without media engines.
    NoMedia,
}

impl ProfileAttribute {
    /// The suffix as it stands in a name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Media => "+me",
            Self::AllMedia => "+me.all",
            Self::Graphics => "+gfx",
            Self::NoMedia => "-me",
        }
    }
}

/// A well-formed profile name, `[Nc.]Ng.Mgb` and at most one attribute. Says nothing about which product has it.
///
/// Ordered bytewise by its text. Leading zeros are dropped, so that one profile has one spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    text: String,
    compute: Option<u32>,
    slices: u32,
    gigabytes: u32,
    attribute: Option<ProfileAttribute>,
}

/// A text that is no profile name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a MIG profile name: it must read like 1g.10gb or 1c.3g.20gb, with at most one of +me, +me.all, +gfx or -me behind it"
)]
pub struct ProfileNameError {
    /// The text as given.
    pub text: String,
}

impl ProfileName {
    /// Reads a name by the grammar above.
    ///
    /// # Errors
    /// When the text does not follow the grammar or a number does not fit 32 bits.
    pub fn parse(text: &str) -> Result<Self, ProfileNameError> {
        Self::read(text).ok_or_else(|| ProfileNameError { text: text.to_owned() })
    }

    fn read(text: &str) -> Option<Self> {
        let end = text.find(['+', '-']).unwrap_or(text.len());
        let (size, suffix) = text.split_at(end);
        let attribute = match suffix {
            "" => None,
            "+me" => Some(ProfileAttribute::Media),
            "+me.all" => Some(ProfileAttribute::AllMedia),
            "+gfx" => Some(ProfileAttribute::Graphics),
            "-me" => Some(ProfileAttribute::NoMedia),
            _ => return None,
        };
        let mut parts = size.split('.').collect::<Vec<_>>();
        let gigabytes = number(parts.pop()?, "gb")?;
        let slices = number(parts.pop()?, "g")?;
        let compute = match parts.pop() {
            Some(part) => Some(number(part, "c")?),
            None => None,
        };
        if !parts.is_empty() || slices == 0 || compute == Some(0) {
            return None;
        }
        let prefix = compute.map(|c| format!("{c}c.")).unwrap_or_default();
        let text = format!("{prefix}{slices}g.{gigabytes}gb{suffix}");
        Some(Self { text, compute, slices, gigabytes, attribute })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The `N` of `Nc.`: compute slices of a compute instance that does not fill its GPU instance.
    pub fn compute(&self) -> Option<u32> {
        self.compute
    }

    /// The `N` of `Ng`: compute slices by name.
    pub fn slices(&self) -> u32 {
        self.slices
    }

    /// The `M` of `Mgb`: rounded gigabytes by name; the memory a workload gets is less.
    pub fn gigabytes(&self) -> u32 {
        self.gigabytes
    }

    /// The attribute, if the name has one.
    pub fn attribute(&self) -> Option<ProfileAttribute> {
        self.attribute
    }

    /// The name as it stands in labels and resource names, where `+` is not allowed and becomes `.`.
    pub fn label_form(&self) -> String {
        self.text.replace('+', ".")
    }
}

fn number(text: &str, unit: &str) -> Option<u32> {
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

impl fmt::Debug for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for ProfileName {
    type Err = ProfileNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl AsRef<str> for ProfileName {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl Serialize for ProfileName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for ProfileName {
    fn schema_name() -> Cow<'static, str> {
        "ProfileName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "MIG profile name, such as 1g.10gb",
            "pattern": r"^([0-9]+c\.)?[0-9]+g\.[0-9]+gb(\+me|\+me\.all|\+gfx|-me)?$",
        })
    }
}

/// The id of a product in the table: lower-case letters, digits and `-`, such as `h100-sxm-80gb`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProductId(String);

/// A text that is no product id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a product id: use lower-case letters, digits and `-`, such as h100-sxm-80gb")]
pub struct ProductIdError {
    /// The text as given.
    pub text: String,
}

impl ProductId {
    /// Reads an id. Whether the table has it is another question.
    ///
    /// # Errors
    /// When the text is empty, starts or ends with `-`, or has another character.
    pub fn parse(text: &str) -> Result<Self, ProductIdError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if text.is_empty() || text.starts_with('-') || text.ends_with('-') || !text.bytes().all(allowed) {
            return Err(ProductIdError { text: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ProductId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ProductId {
    type Err = ProductIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for ProductId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProductId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for ProductId {
    fn schema_name() -> Cow<'static, str> {
        "ProductId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Id of a product in the profile table, such as h100-sxm-80gb",
            "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
        })
    }
}

/// The candidates nearest to a wrong spelling, best first, at most three; equal ones in the order given.
///
/// A candidate farther away than half of its length is left out: it would only mislead.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wrong = wrong.to_lowercase();
    let mut scored = Vec::new();
    for candidate in candidates {
        let distance = edit_distance(&wrong, &candidate.to_lowercase());
        if distance * 2 <= candidate.chars().count().max(1) {
            scored.push((distance, candidate));
        }
    }
    scored.sort_by_key(|(distance, _)| *distance);
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours.
fn edit_distance(a: &str, b: &str) -> usize {
    let a = a.chars().take(200).collect::<Vec<_>>();
    let b = b.chars().take(200).collect::<Vec<_>>();
    let mut before = vec![0; b.len() + 1];
    let mut last = (0..=b.len()).collect::<Vec<_>>();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar() {
        let name = ProfileName::parse("1c.3g.20gb+me.all").unwrap();
        assert_eq!((name.compute(), name.slices(), name.gigabytes()), (Some(1), 3, 20));
        assert_eq!(name.attribute(), Some(ProfileAttribute::AllMedia));
        assert_eq!(name.label_form(), "1c.3g.20gb.me.all");
        assert_eq!(ProfileName::parse("01g.010gb").unwrap().as_str(), "1g.10gb");
        for wrong in [
            "",
            "1g",
            "1g.10bg",
            "1g.10gb+",
            "1g.10gb+me+gfx",
            "1g.10gb-gfx",
            "g.10gb",
            "1g.gb",
            "0g.5gb",
            "1G.5GB",
            "1c.1c.1g.5gb",
            "1g.10gb ",
            "+1g.10gb",
            "1g.99999999999gb",
            "1g.10gb.me",
            "１g.10gb",
        ] {
            assert!(ProfileName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_swap_is_the_nearest_spelling() {
        assert_eq!(nearest("1g.10bg", ["1g.20gb", "1g.10gb", "7g.80gb"])[0], "1g.10gb");
        assert!(nearest("zzzzzzz", ["1g.10gb"]).is_empty());
    }

    #[test]
    fn names_are_strings_in_json() {
        let name: ProfileName = serde_json::from_str("\"1g.10gb\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"1g.10gb\"");
        assert!(serde_json::from_str::<ProductId>("\"NVIDIA A30\"").is_err());
    }
}
