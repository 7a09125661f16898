//! Streaming reader of one input: lists are walked item by item, and of each item only the typed parts in
//! [`super::wire`] are built. Memory is bounded by one object and by what the sink keeps.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tesela_formats::sniff::{Kind as Look, sniff};

use super::error::{COMMAND, ObserveError};
use super::wire::{Metadata, NodeSpec, NodeStatus, PodSpec, PodStatus, QuotaSpec};

/// Bytes looked at to tell what an input is, and read at a time after that.
const HEAD: usize = 4096;
const BUFFER: usize = 1 << 16;
/// Different kinds counted for messages; a hostile input could name many.
const KINDS: usize = 16;

/// One object, as far as it is read.
pub(super) enum Object {
    Node(Metadata, NodeSpec, NodeStatus),
    Pod(Box<(Metadata, PodSpec, PodStatus)>),
    Quota(Metadata, QuotaSpec),
    Namespace(Metadata),
}

/// Who takes the objects.
pub(super) trait Sink {
    /// A document begins: a list or a single object, one snapshot of (part of) a cluster.
    fn begin(&mut self);
    /// The document is a list; told before its first object.
    fn list(&mut self);
    /// One object of it. An error is told with its line and column.
    fn take(&mut self, object: Object) -> Result<(), String>;
    /// The document is whole; `list` says whether it was a list.
    fn end(&mut self, list: bool);
}

/// Reads every document of an input.
pub(super) fn read_input(
    file: &str,
    mut reader: impl Read,
    sink: &mut impl Sink,
) -> Result<(), ObserveError> {
    let io = |e: &std::io::Error| ObserveError::Io { file: file.to_owned(), message: e.to_string() };
    let mut head = Vec::new();
    reader.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(|e| io(&e))?;
    check_look(file, &head)?;
    let skip = if head.starts_with(&[0xEF, 0xBB, 0xBF]) { 3 } else { 0 };
    let bytes = BufReader::with_capacity(BUFFER, head[skip..].chain(reader));
    let mut de = serde_json::Deserializer::from_reader(bytes);
    let mut tally = Tally::default();
    loop {
        match de.end() {
            Ok(()) => break,
            Err(e) if e.is_io() => return Err(fault(file, &e, &tally)),
            Err(_) => {}
        }
        sink.begin();
        let seed = DocumentSeed { sink: &mut *sink, tally: &mut tally };
        let list = seed.deserialize(&mut de).map_err(|e| fault(file, &e, &tally))?;
        sink.end(list);
    }
    tally.verdict(file)
}

fn check_look(file: &str, head: &[u8]) -> Result<(), ObserveError> {
    let json = format!("run `{COMMAND}`");
    let (found, hint) = match sniff(head) {
        Look::Json => return Ok(()),
        Look::Empty => {
            return Err(ObserveError::Empty { file: file.to_owned() });
        }
        Look::KubectlTable => {
            ("the table that kubectl prints for people", format!("the flag `-o json` is missing: {json}"))
        }
        Look::KubectlMessage => ("a message of kubectl", format!("mend what it says, then {json}")),
        Look::Utf16 => (
            "UTF-16 text, as some shells write it",
            "save it as UTF-8, or pipe it in without a file".to_owned(),
        ),
        Look::Binary => ("not text", json),
        Look::Yaml => ("YAML or other text", format!("use `-o json` instead of `-o yaml`: {json}")),
    };
    Err(ObserveError::NotJson { file: file.to_owned(), found, hint })
}

fn fault(file: &str, error: &serde_json::Error, tally: &Tally) -> ObserveError {
    let (file, line, column) = (file.to_owned(), error.line().max(1), error.column().max(1));
    let last = match &tally.last {
        Some(last) => format!("after {} whole objects, the last one {last}", tally.objects),
        None => "before the first whole object".to_owned(),
    };
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message).to_owned();
    match error.classify() {
        serde_json::error::Category::Io => ObserveError::Io { file, message },
        serde_json::error::Category::Eof => ObserveError::Truncated { file, line, column, last },
        _ => ObserveError::Json { file, line, column, message, last },
    }
}

/// What was seen, for messages.
#[derive(Default)]
struct Tally {
    objects: u64,
    useful: u64,
    last: Option<String>,
    kinds: BTreeMap<String, u64>,
    refused: Option<String>,
}

impl Tally {
    fn count(&mut self, kind: &str, metadata: &Metadata) {
        self.objects += 1;
        let place = if metadata.namespace.is_empty() { "" } else { "/" };
        self.last = Some(format!("{kind}/{}{place}{}", metadata.namespace, metadata.name));
        if self.kinds.len() < KINDS || self.kinds.contains_key(kind) {
            *self.kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }

    fn verdict(self, file: &str) -> Result<(), ObserveError> {
        let file = file.to_owned();
        if let Some(message) = self.refused {
            return Err(ObserveError::Refused { file, message });
        }
        if self.useful > 0 {
            return Ok(());
        }
        if self.objects == 0 {
            return Err(ObserveError::NoItems { file });
        }
        let kinds = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        Err(ObserveError::WrongKinds { file, found: kinds.collect::<Vec<_>>().join(", ") })
    }
}

/// What an object is, as far as this reader cares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Node,
    Pod,
    Quota,
    Namespace,
    Other,
    Unknown,
}

/// Other API groups have kinds called `Node` too (Longhorn), so the group counts.
fn sort(kind: Option<&str>, api_version: Option<&str>) -> Sort {
    let core = api_version.is_none_or(|v| v == "v1");
    match kind {
        None => Sort::Unknown,
        Some("Node") if core => Sort::Node,
        Some("Pod") if core => Sort::Pod,
        Some("ResourceQuota") if core => Sort::Quota,
        Some("Namespace") if core => Sort::Namespace,
        Some(_) => Sort::Other,
    }
}

/// Items of a `PodList` carry no kind of their own in the API server's raw answers.
fn item_kind(list: Option<&str>) -> Option<String> {
    list.and_then(|l| l.strip_suffix("List")).filter(|k| !k.is_empty()).map(str::to_owned)
}

/// The parts of an object. Where the kind comes after a part, or not at all, that part is held raw until the
/// object ends; at most one object is held so.
#[derive(Default)]
struct Parts {
    node: (NodeSpec, NodeStatus),
    pod: (PodSpec, PodStatus),
    quota: QuotaSpec,
    raw_spec: Option<Value>,
    raw_status: Option<Value>,
}

impl Parts {
    fn read_spec<'de, A: MapAccess<'de>>(&mut self, map: &mut A, sort: Sort) -> Result<(), A::Error> {
        match sort {
            Sort::Node => self.node.0 = map.next_value::<Option<_>>()?.unwrap_or_default(),
            Sort::Pod => self.pod.0 = map.next_value::<Option<_>>()?.unwrap_or_default(),
            Sort::Quota => self.quota = map.next_value::<Option<_>>()?.unwrap_or_default(),
            Sort::Unknown => self.raw_spec = map.next_value()?,
            Sort::Namespace | Sort::Other => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn read_status<'de, A: MapAccess<'de>>(&mut self, map: &mut A, sort: Sort) -> Result<(), A::Error> {
        match sort {
            Sort::Node => self.node.1 = map.next_value::<Option<_>>()?.unwrap_or_default(),
            Sort::Pod => self.pod.1 = map.next_value::<Option<_>>()?.unwrap_or_default(),
            Sort::Unknown => self.raw_status = map.next_value()?,
            Sort::Quota | Sort::Namespace | Sort::Other => {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    /// What an object without a kind is, by what only one kind has.
    fn shape(&self) -> Sort {
        let has = |part: &Option<Value>, key: &str| part.as_ref().is_some_and(|p| p.get(key).is_some());
        if has(&self.raw_spec, "containers") {
            Sort::Pod
        } else if has(&self.raw_status, "nodeInfo") || has(&self.raw_status, "allocatable") {
            Sort::Node
        } else {
            Sort::Other
        }
    }

    fn object(self, sort: Sort, metadata: Metadata) -> Result<Option<Object>, serde_json::Error> {
        Ok(match sort {
            Sort::Node => {
                let (spec, status) = self.node;
                let (spec, status) = (typed(self.raw_spec, spec)?, typed(self.raw_status, status)?);
                Some(Object::Node(metadata, spec, status))
            }
            Sort::Pod => {
                let (spec, status) = self.pod;
                let (spec, status) = (typed(self.raw_spec, spec)?, typed(self.raw_status, status)?);
                Some(Object::Pod(Box::new((metadata, spec, status))))
            }
            Sort::Quota => Some(Object::Quota(metadata, typed(self.raw_spec, self.quota)?)),
            Sort::Namespace => Some(Object::Namespace(metadata)),
            Sort::Other | Sort::Unknown => None,
        })
    }
}

fn typed<T: for<'de> Deserialize<'de>>(raw: Option<Value>, read: T) -> Result<T, serde_json::Error> {
    raw.map_or(Ok(read), T::deserialize)
}

struct DocumentSeed<'a, S> {
    sink: &'a mut S,
    tally: &'a mut Tally,
}

impl<'de, S: Sink> DeserializeSeed<'de> for DocumentSeed<'_, S> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        let object = ObjectSeed { sink: self.sink, tally: self.tally, kind: None, top: true };
        deserializer.deserialize_map(object)
    }
}

struct ItemsSeed<'a, S> {
    sink: &'a mut S,
    tally: &'a mut Tally,
    kind: Option<String>,
}

impl<'de, S: Sink> DeserializeSeed<'de> for ItemsSeed<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for ItemsSeed<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects under `items`")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        loop {
            let item = ObjectSeed {
                sink: &mut *self.sink,
                tally: &mut *self.tally,
                kind: self.kind.clone(),
                top: false,
            };
            if seq.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }
}

/// One object. At the top it may be a list.
struct ObjectSeed<'a, S> {
    sink: &'a mut S,
    tally: &'a mut Tally,
    kind: Option<String>,
    top: bool,
}

impl<'de, S: Sink> DeserializeSeed<'de> for ObjectSeed<'_, S> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_map(self)
    }
}

/// The keys of an object that matter.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Key {
    Kind,
    ApiVersion,
    Metadata,
    Spec,
    Status,
    Items,
    Message,
    #[serde(other)]
    Other,
}

impl<'de, S: Sink> Visitor<'de> for ObjectSeed<'_, S> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    /// Answers whether the object was a list.
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<bool, A::Error> {
        let mut api_version: Option<String> = None;
        let mut metadata = Metadata::default();
        let mut parts = Parts::default();
        let mut message = None;
        let mut list = false;
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Kind => self.kind = map.next_value::<Option<String>>()?.or(self.kind),
                Key::ApiVersion => api_version = map.next_value()?,
                Key::Metadata => metadata = map.next_value::<Option<Metadata>>()?.unwrap_or_default(),
                Key::Spec => {
                    parts.read_spec(&mut map, sort(self.kind.as_deref(), api_version.as_deref()))?;
                }
                Key::Status => {
                    parts.read_status(&mut map, sort(self.kind.as_deref(), api_version.as_deref()))?;
                }
                Key::Items if self.top => {
                    list = true;
                    self.sink.list();
                    let kind = item_kind(self.kind.as_deref());
                    map.next_value_seed(ItemsSeed { sink: &mut *self.sink, tally: &mut *self.tally, kind })?;
                }
                Key::Message if self.top => message = map.next_value::<Value>()?.as_str().map(str::to_owned),
                Key::Items | Key::Message | Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if list {
            return Ok(true);
        }
        if self.top && self.kind.as_deref() == Some("Status") {
            self.tally.refused = Some(message.unwrap_or_else(|| "no message".to_owned()));
            return Ok(false);
        }
        self.finish(api_version.as_deref(), metadata, parts).map_err(A::Error::custom)?;
        Ok(false)
    }
}

impl<S: Sink> ObjectSeed<'_, S> {
    fn finish(self, api_version: Option<&str>, metadata: Metadata, parts: Parts) -> Result<(), String> {
        let sort = match sort(self.kind.as_deref(), api_version) {
            Sort::Unknown => parts.shape(),
            known => known,
        };
        let kind = match (sort, self.kind) {
            (_, Some(kind)) => kind,
            (Sort::Node, None) => "Node".to_owned(),
            (Sort::Pod, None) => "Pod".to_owned(),
            (_, None) => "object without a kind".to_owned(),
        };
        let needed = !matches!(sort, Sort::Other | Sort::Unknown);
        if needed && metadata.name.is_empty() {
            return Err(format!("a {kind} without metadata.name"));
        }
        self.tally.count(&kind, &metadata);
        let place = self.tally.last.clone().unwrap_or_default();
        let Some(object) = parts.object(sort, metadata).map_err(|e| format!("{place}: {e}"))? else {
            return Ok(());
        };
        self.tally.useful += 1;
        self.sink.take(object)
    }
}
