//! Parser events to trees.

use std::collections::BTreeMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle, Tag};

use super::budget::clip;
use super::fault::{fault, from_scan_error};
use super::scalar::{Scalar, Style};
use super::{Duplicate, Duplicates, Entry, Key, Mapping, Node, ReadOptions, Tree, Value};
use crate::diagnostic::{Diagnostic, Diagnostics, shown};
use crate::source::Span;

/// A finished value with what it costs: nodes in it, and how deep it nests.
#[derive(Clone)]
struct Built {
    node: Node,
    nodes: usize,
    height: usize,
}

/// A collection that is still open.
enum Open {
    Sequence {
        items: Vec<Node>,
    },
    Mapping {
        entries: Vec<Entry>,
        seen: BTreeMap<Arc<str>, Span>,
        key: Option<PendingKey>,
        merges: Vec<Node>,
    },
}

/// A key whose value is not read yet.
struct PendingKey {
    key: Key,
    /// A bare `<<`, which merges; in quotes it is a key like any other.
    merge: bool,
}

struct Frame {
    at: Span,
    anchor: usize,
    nodes: usize,
    height: usize,
    open: Open,
}

struct Builder<'a> {
    file: Arc<str>,
    options: &'a ReadOptions,
    stack: Vec<Frame>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Built>,
    duplicates: Vec<Duplicate>,
    /// Nodes of all documents so far, aliases expanded.
    nodes: usize,
}

/// Reads every document of a text.
pub(super) fn documents(name: &str, text: &str, options: ReadOptions) -> Result<Vec<Tree>, Diagnostics> {
    let limit = u16::try_from(options.budget.depth.saturating_add(2)).unwrap_or(u16::MAX);
    let parser_options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: limit.into(),
        block_nesting_limit: limit.into(),
    };
    let mut builder = Builder {
        file: name.into(),
        options: &options,
        stack: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        duplicates: Vec::new(),
        nodes: 0,
    };
    let mut trees = Vec::new();
    for next in Parser::new_from_str_with_options(text, parser_options) {
        let (event, span) = next.map_err(|error| {
            let open: Vec<(Span, &str)> = builder.stack.iter().map(Frame::opened).collect();
            Diagnostics::from(from_scan_error(name, text, &options, &error, &open))
        })?;
        let at = options.offset.lift(Span::new(clip(span.start.line()), clip(span.start.col() + 1)));
        let written = span.start.index() < span.end.index();
        if let Some(tree) = builder.take(event, at, written)? {
            trees.push(tree);
        }
    }
    let repeated: Vec<Diagnostic> =
        trees.iter().flat_map(|tree| &tree.duplicates).map(|twice| repeated_key(name, twice)).collect();
    if options.duplicates == Duplicates::Refuse && !repeated.is_empty() {
        return Err(Diagnostics::new(repeated));
    }
    if trees.is_empty() {
        return Err(fault(
            name,
            "empty-input",
            "there is nothing in it but comments",
            options.offset.lift(Span::new(1, 1)),
        )
        .fix("check the command or the path that should have produced it")
        .into());
    }
    Ok(trees)
}

/// The message for a key that stands twice.
fn repeated_key(name: &str, twice: &Duplicate) -> Diagnostic {
    let key = shown(&twice.key);
    fault(
        name,
        "duplicate-key",
        format!(
            "`{key}` stands twice in one mapping, on line {} and on line {}",
            twice.first.line, twice.again.line
        ),
        twice.again,
    )
    .value(key)
    .fix("keep one of the two")
}

impl Frame {
    fn opened(&self) -> (Span, &'static str) {
        match self.open {
            Open::Sequence { .. } => (self.at, "list"),
            Open::Mapping { .. } => (self.at, "mapping"),
        }
    }
}

impl Builder<'_> {
    /// Takes one event; answers the tree when a document that holds something ends. `written` is
    /// false for a scalar that stands nowhere in the text: the parser hands out `~` for it.
    fn take(&mut self, event: Event<'_>, at: Span, written: bool) -> Result<Option<Tree>, Diagnostics> {
        match event {
            Event::Scalar(mut text, style, anchor, tag) => {
                if !written {
                    text = "".into();
                }
                let scalar = self.scalar(&text, style, tag.as_deref(), at)?;
                self.count(1, at)?;
                let node = Node { at, value: Value::Scalar(scalar) };
                self.finish(Built { node, nodes: 1, height: 0 }, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", at)?;
                self.open(at, anchor, Open::Sequence { items: Vec::new() })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", at)?;
                let open = Open::Mapping {
                    entries: Vec::new(),
                    seen: BTreeMap::new(),
                    key: None,
                    merges: Vec::new(),
                };
                self.open(at, anchor, open)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Alias(anchor) => {
                let Some(built) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.fault("yaml-cycle", "this alias stands inside the value it names", at));
                };
                self.count(built.nodes, at)?;
                self.check_depth(self.stack.len() + built.height, at)?;
                self.finish(Built { node: Node { at, ..built.node }, ..built }, 0)?;
            }
            Event::DocumentEnd => {
                let duplicates = std::mem::take(&mut self.duplicates);
                self.anchors.clear();
                let root = self.root.take().filter(|root| !root.is_empty_scalar());
                return Ok(root.map(|root| Tree { file: Arc::clone(&self.file), root, duplicates }));
            }
            _ => {}
        }
        Ok(None)
    }

    fn fault(&self, rule: &'static str, message: impl Into<String>, at: Span) -> Diagnostics {
        fault(&self.file, rule, message, at).into()
    }

    /// Counts nodes before they are made, so that a bomb is refused while it is small.
    fn count(&mut self, more: usize, at: Span) -> Result<(), Diagnostics> {
        self.nodes = self.nodes.saturating_add(more);
        let most = self.options.budget.nodes;
        if self.nodes <= most {
            return Ok(());
        }
        let message = format!("the text holds more than {most} values, aliases expanded");
        Err(fault(&self.file, "yaml-nodes", message, at)
            .fix("split it into several files, or write the values out where `*` repeats them")
            .into())
    }

    fn check_depth(&self, depth: usize, at: Span) -> Result<(), Diagnostics> {
        let most = self.options.budget.depth;
        if depth <= most {
            return Ok(());
        }
        Err(self.fault("yaml-depth", format!("values nest deeper than {most} levels"), at))
    }

    fn open(&mut self, at: Span, anchor: usize, open: Open) -> Result<(), Diagnostics> {
        if self.expects_key() {
            return Err(self.key_is_no_scalar(at));
        }
        self.count(1, at)?;
        self.check_depth(self.stack.len() + 1, at)?;
        self.stack.push(Frame { at, anchor, nodes: 1, height: 1, open });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Diagnostics> {
        // The parser ends only what it began.
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let value = match frame.open {
            Open::Sequence { items } => Value::Sequence(Arc::new(items)),
            Open::Mapping { mut entries, mut seen, merges, .. } => {
                for merged in merges {
                    self.merge(&merged, &mut entries, &mut seen)?;
                }
                Value::Mapping(Arc::new(Mapping { entries }))
            }
        };
        let node = Node { at: frame.at, value };
        self.finish(Built { node, nodes: frame.nodes, height: frame.height }, frame.anchor)
    }

    /// Puts a finished value where it belongs: key, value, element or root.
    fn finish(&mut self, built: Built, anchor: usize) -> Result<(), Diagnostics> {
        if anchor != 0 {
            self.anchors.insert(anchor, built.clone());
        }
        let expects_key = self.expects_key();
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(built.node);
            return Ok(());
        };
        frame.nodes = frame.nodes.saturating_add(built.nodes);
        frame.height = frame.height.max(built.height + 1);
        match &mut frame.open {
            Open::Sequence { items } => items.push(built.node),
            Open::Mapping { key, .. } if expects_key => {
                let Value::Scalar(scalar) = built.node.value else {
                    return Err(self.key_is_no_scalar(built.node.at));
                };
                let merge = &*scalar.text == "<<" && scalar.style == Style::Plain && !scalar.tagged_text;
                let at = built.node.at;
                *key = Some(PendingKey { key: Key { text: scalar.text, at }, merge });
            }
            Open::Mapping { entries, seen, key, merges } => {
                // `expects_key` was false, so there is a key.
                let Some(PendingKey { key, merge }) = key.take() else { return Ok(()) };
                if merge {
                    merges.push(built.node);
                    return Ok(());
                }
                if let Some(first) = seen.get(&key.text) {
                    let again = key.at;
                    self.duplicates.push(Duplicate { key: Arc::clone(&key.text), first: *first, again });
                } else {
                    seen.insert(Arc::clone(&key.text), key.at);
                }
                entries.push(Entry { key, value: built.node });
            }
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { open: Open::Mapping { key: None, .. }, .. }))
    }

    fn key_is_no_scalar(&self, at: Span) -> Diagnostics {
        fault(&self.file, "yaml-key", "a key must be a word or a number, not a list or a mapping", at)
            .fix("if it is a template (`{{ … }}`), render it first")
            .into()
    }

    /// `<<: *base`: entries of the base that the mapping does not have itself. The nodes were counted
    /// when the alias was read.
    fn merge(
        &mut self,
        merged: &Node,
        entries: &mut Vec<Entry>,
        seen: &mut BTreeMap<Arc<str>, Span>,
    ) -> Result<(), Diagnostics> {
        let bases: Vec<&Mapping> = match &merged.value {
            Value::Mapping(base) => vec![base],
            Value::Sequence(items) => items.iter().filter_map(Node::as_mapping).collect(),
            Value::Scalar(_) => Vec::new(),
        };
        if bases.is_empty() {
            return Err(self.fault("yaml-merge", "`<<` takes a mapping or a list of mappings", merged.at));
        }
        for base in bases {
            for entry in &base.entries {
                if !seen.contains_key(&entry.key.text) {
                    seen.insert(Arc::clone(&entry.key.text), entry.key.at);
                    entries.push(entry.clone());
                }
            }
        }
        Ok(())
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        at: Span,
    ) -> Result<Scalar, Diagnostics> {
        let style = match style {
            ScalarStyle::Plain => Style::Plain,
            ScalarStyle::Literal => Style::Literal,
            ScalarStyle::Folded => Style::Folded,
            _ => Style::Quoted,
        };
        let mut tagged_text = false;
        if let Some(tag) = tag {
            match tag.core_suffix() {
                Some("str") => tagged_text = true,
                Some("null" | "bool" | "int" | "float") => {}
                _ if tag.suffix().is_empty() => tagged_text = true,
                _ => return Err(self.unknown_tag(tag, at)),
            }
        }
        Ok(Scalar { text: text.into(), style, tagged_text })
    }

    fn check_tag(&self, tag: Option<&Tag>, kind: &str, at: Span) -> Result<(), Diagnostics> {
        match tag {
            Some(tag) if tag.core_suffix() != Some(kind) => Err(self.unknown_tag(tag, at)),
            _ => Ok(()),
        }
    }

    fn unknown_tag(&self, tag: &Tag, at: Span) -> Diagnostics {
        let written = shown(&tag.original());
        fault(&self.file, "yaml-tag", format!("the tag `{written}` has no meaning here"), at)
            .value(written)
            .fix("remove the tag")
            .into()
    }
}

impl Node {
    /// An empty document: nothing written at all.
    fn is_empty_scalar(&self) -> bool {
        matches!(&self.value, Value::Scalar(s) if s.style == Style::Plain && s.text.is_empty() && !s.tagged_text)
    }
}
