//! One GPU as a tile: an SVG picture 64 wide and 16 high, in which a memory unit has the same width on every GPU of a
//! product. Whether something is held, free or lost is told by colour, by pattern and by a letter or figure, so that
//! it is told without colour too.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use tesela_model::fleet::Mode;
use tesela_model::plan::{GpuToday, PlannedGpu, PlannedInstance, Use};
use tesela_model::product::{Product, ProductTable};

use super::text::{Text, fill};

/// Width of the picture.
const WIDTH: u32 = 64;
/// Memory units of a GPU of which nobody says how many it has.
const UNITS: u32 = 8;
/// Shares that are drawn one by one; more stand there as figures.
const DRAWN_SHARES: u32 = 8;

/// What is to be seen of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Face {
    /// Offered whole.
    Whole {
        /// Whether a pod holds it.
        held: bool,
    },
    /// Offered in turns.
    Shared {
        /// Through the MPS daemon.
        mps: bool,
        /// Shares there are.
        replicas: u32,
        /// Shares that pods hold.
        held: u64,
    },
    /// Cut into instances.
    Cut {
        /// Memory units of the GPU.
        units: u32,
        /// The instances, by start.
        pieces: Vec<Piece>,
    },
    /// Nothing can be said of it.
    Unknown,
}

/// An instance on a tile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    start: u32,
    size: u32,
    slices: u32,
    profile: String,
    replicas: Option<u32>,
    held: u64,
}

/// A GPU's face and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) face: Face,
    pub(super) changed: bool,
    /// Who holds what, for a person who points at it.
    pub(super) who: String,
}

impl Face {
    pub(super) fn today(gpu: &GpuToday) -> Self {
        face(gpu.mode, gpu.replicas, &gpu.instances, &gpu.used_by, &gpu.product)
    }

    pub(super) fn planned(gpu: &PlannedGpu) -> Self {
        face(gpu.mode, gpu.replicas, &gpu.instances, &gpu.used_by, &gpu.product)
    }

    /// Whether any pod holds something of it.
    pub(super) fn held(&self) -> bool {
        match self {
            Self::Whole { held } => *held,
            Self::Shared { held, .. } => *held > 0,
            Self::Cut { pieces, .. } => pieces.iter().any(|p| p.held > 0),
            Self::Unknown => false,
        }
    }

    /// The same GPU with nobody on it: how it is cut or shared.
    pub(super) fn without_holders(&self) -> Self {
        match self.clone() {
            Self::Whole { .. } => Self::Whole { held: false },
            Self::Shared { mps, replicas, .. } => Self::Shared { mps, replicas, held: 0 },
            Self::Cut { units, mut pieces } => {
                pieces.iter_mut().for_each(|p| p.held = 0);
                Self::Cut { units, pieces }
            }
            Self::Unknown => Self::Unknown,
        }
    }

    /// The same in words: `MIG: 1g.10gb held, 2g.20gb free, 1 memory unit in no instance`.
    pub(super) fn words(&self, text: &Text) -> String {
        match self {
            Self::Whole { held: true } => text.whole_held.to_owned(),
            Self::Whole { held: false } => text.whole_free.to_owned(),
            Self::Shared { mps, replicas, held } => {
                let words = fill(
                    text.tile_shared,
                    &[("replicas", &text.count(*replicas)), ("held", &text.count(*held))],
                );
                if *mps { format!("MPS: {words}") } else { words }
            }
            Self::Cut { units, pieces } => cut_words(*units, pieces, text),
            Self::Unknown => text.unknown_gpu.to_owned(),
        }
    }

    /// The picture's inside.
    fn drawing(&self) -> String {
        let mut out = String::new();
        match self {
            Self::Whole { held: true } => {
                rect(&mut out, 0, WIDTH, "w");
                letter(&mut out, WIDTH / 2, "G", "wt");
            }
            Self::Whole { held: false } => rect(&mut out, 0, WIDTH, "f"),
            Self::Shared { mps, replicas, held } => shares(&mut out, *mps, *replicas, *held),
            Self::Cut { units, pieces } => instances(&mut out, *units, pieces),
            Self::Unknown => {
                rect(&mut out, 0, WIDTH, "u");
                letter(&mut out, WIDTH / 2, "?", "ut");
            }
        }
        out
    }
}

/// A tile on the page. The row that holds it says the same in words.
pub(super) fn picture(tile: &Tile) -> Markup {
    let class = if tile.changed { "t ch" } else { "t" };
    html! {
        svg class=(class) viewBox="0 0 64 16" aria-hidden="true" focusable="false" {
            @if !tile.who.is_empty() { title { (tile.who) } }
            (PreEscaped(tile.face.drawing()))
        }
    }
}

/// The patterns that the pictures are filled with; once on a page.
pub(super) fn patterns() -> Markup {
    html! {
        svg class="defs" width="0" height="0" aria-hidden="true" focusable="false" {
            defs {
                pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" {
                    path class="hl" d="M0 4 4 0M-1 1 1-1M3 5 5 3" {}
                }
                pattern id="dots" width="4" height="4" patternUnits="userSpaceOnUse" {
                    circle class="dt" cx="2" cy="2" r=".7" {}
                }
                pattern id="bars" width="3" height="3" patternUnits="userSpaceOnUse" {
                    rect class="bb" width="3" height="3" {}
                    path class="bl" d="M.5 0V3" {}
                }
            }
        }
    }
}

/// Faces for the legend, one of each kind.
pub(super) fn samples(text: &Text) -> Vec<(Face, &'static str)> {
    let piece = |slices: u32, replicas: Option<u32>, held: u64| Piece {
        start: 0,
        size: 4,
        slices,
        profile: String::new(),
        replicas,
        held,
    };
    let cut = |piece: Piece| Face::Cut { units: 4, pieces: vec![piece] };
    vec![
        (Face::Whole { held: true }, text.whole_held),
        (Face::Whole { held: false }, text.whole_free),
        (Face::Shared { mps: false, replicas: 4, held: 3 }, text.shared),
        (Face::Shared { mps: true, replicas: 4, held: 3 }, text.shared_mps),
        (cut(piece(2, None, 1)), text.instance_held),
        (cut(piece(2, None, 0)), text.instance_free),
        (cut(piece(2, Some(2), 1)), text.instance_shared),
        (Face::Cut { units: 4, pieces: Vec::new() }, text.stranded),
        (Face::Unknown, text.unknown_gpu),
    ]
}

/// Whether a face shows what a sample of the legend explains.
pub(super) fn shows(face: &Face, sample: &Face) -> bool {
    match (face, sample) {
        (Face::Whole { held: a }, Face::Whole { held: b }) => a == b,
        (Face::Shared { mps: a, .. }, Face::Shared { mps: b, .. }) => a == b,
        (Face::Unknown, Face::Unknown) => true,
        (Face::Cut { units, pieces }, Face::Cut { pieces: sample, .. }) => match sample.first() {
            None => taken(pieces) < *units,
            Some(s) => pieces.iter().any(|p| {
                (p.held > 0) == (s.held > 0) && (s.held == 0 || p.replicas.is_some() == s.replicas.is_some())
            }),
        },
        _ => false,
    }
}

/// Who holds a GPU today: `care-prod/dialog`, and for instances each with its profile.
pub(super) fn who(used_by: &[Use], instances: &[PlannedInstance], text: &Text) -> String {
    let name = |u: &Use| {
        let name = if u.workload.is_empty() {
            text.no_demand.to_owned()
        } else {
            format!("{}/{}", u.namespace, u.workload)
        };
        if u.pods > 1 { format!("{name} ×{}", text.count(u.pods)) } else { name }
    };
    let names = |users: &[Use]| {
        if users.is_empty() {
            text.tile_free.to_owned()
        } else {
            users.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    };
    if instances.is_empty() {
        return if used_by.is_empty() { String::new() } else { names(used_by) };
    }
    instances.iter().map(|i| format!("{}: {}", i.profile, names(&i.used_by))).collect::<Vec<_>>().join("\n")
}

fn face(
    mode: Mode,
    replicas: Option<u32>,
    instances: &[PlannedInstance],
    used_by: &[Use],
    product: &str,
) -> Face {
    let pods = |users: &[Use]| users.iter().map(|u| u.pods).sum::<u64>();
    match mode {
        Mode::Exclusive => Face::Whole { held: !used_by.is_empty() },
        Mode::TimeSliced | Mode::Mps => {
            Face::Shared { mps: mode == Mode::Mps, replicas: replicas.unwrap_or(1), held: pods(used_by) }
        }
        Mode::Mig => {
            let piece = |i: &PlannedInstance| Piece {
                start: i.start,
                size: i.size,
                slices: i.profile.slices(),
                profile: i.profile.to_string(),
                replicas: i.replicas,
                held: pods(&i.used_by),
            };
            let pieces: Vec<Piece> = instances.iter().map(piece).collect();
            let known = ProductTable::builtin().find(product).map_or(0, Product::units);
            let reach = pieces.iter().map(|p| p.start.saturating_add(p.size)).max().unwrap_or(0);
            let units = if known.max(reach) == 0 { UNITS } else { known.max(reach) };
            Face::Cut { units, pieces }
        }
    }
}

fn taken(pieces: &[Piece]) -> u32 {
    pieces.iter().map(|p| p.size).fold(0, u32::saturating_add)
}

fn cut_words(units: u32, pieces: &[Piece], text: &Text) -> String {
    let mut words: Vec<(String, u64)> = Vec::new();
    let mut add = |word: String| match words.last_mut() {
        Some((last, n)) if *last == word => *n += 1,
        _ => words.push((word, 1)),
    };
    for piece in pieces {
        let state = match piece.replicas {
            Some(replicas) => {
                let held = text.count(piece.held);
                fill(text.tile_shared, &[("replicas", &text.count(replicas)), ("held", &held)])
            }
            None if piece.held > 0 => text.tile_held.to_owned(),
            None => text.tile_free.to_owned(),
        };
        add(format!("{} {state}", piece.profile));
    }
    let mut words: Vec<String> =
        words.into_iter().map(|(word, n)| if n == 1 { word } else { format!("{n} × {word}") }).collect();
    let stranded = units.saturating_sub(taken(pieces));
    if stranded > 0 {
        words.push(text.many(u64::from(stranded), &text.tile_stranded));
    }
    format!("{}: {}", text.tile_mig, words.join(", "))
}

/// One column for the sign, then the shares as boxes, or as figures where they are too many.
fn shares(out: &mut String, mps: bool, replicas: u32, held: u64) {
    const SIGN: u32 = 20;
    let sign = format!("{}{replicas}", if mps { "M" } else { "÷" });
    let wide = if replicas > DRAWN_SHARES { WIDTH } else { SIGN };
    rect(out, 0, wide, if mps { "m" } else { "s" });
    if replicas > DRAWN_SHARES {
        letter(out, WIDTH / 2, &format!("{sign} {held}"), "st");
        return;
    }
    letter(out, SIGN / 2, &sign, "st");
    let room = WIDTH - SIGN;
    for share in 0..replicas {
        let (from, to) = (SIGN + room * share / replicas, SIGN + room * (share + 1) / replicas);
        let class = match (u64::from(share) < held, mps) {
            (false, _) => "f",
            (true, true) => "m",
            (true, false) => "s",
        };
        rect(out, from, to - from, class);
    }
}

fn instances(out: &mut String, units: u32, pieces: &[Piece]) {
    let at = |unit: u32| WIDTH * unit.min(units) / units.max(1);
    let mut free_from = 0;
    let stranded = |out: &mut String, from: u32, to: u32| {
        if from < to {
            rect(out, at(from), at(to) - at(from), "x");
        }
    };
    for piece in pieces {
        stranded(out, free_from, piece.start);
        let (from, to) = (at(piece.start), at(piece.start.saturating_add(piece.size)));
        free_from = free_from.max(piece.start.saturating_add(piece.size));
        let (class, ink) = match (piece.held > 0, piece.replicas) {
            (false, _) => ("e", "et"),
            (true, None) => ("i", "it"),
            (true, Some(_)) => ("it2", "it"),
        };
        rect(out, from, to.saturating_sub(from), class);
        let digit = match piece.replicas {
            Some(_) if piece.size > 1 => format!("{}÷", piece.slices),
            _ => piece.slices.to_string(),
        };
        let narrow = to.saturating_sub(from) < 10;
        letter(out, (from + to) / 2, &digit, &format!("{ink}{}", if narrow { " sm" } else { "" }));
    }
    stranded(out, free_from, units);
}

/// A box with a gap to its neighbour. Coordinates are ours, and classes too: nothing of the input.
fn rect(out: &mut String, from: u32, wide: u32, class: &str) {
    let inside = f64::from(wide) - 1.0;
    let _ = write!(
        out,
        r#"<rect class="{class}" x="{}" y=".5" width="{inside}" height="15"/>"#,
        f64::from(from) + 0.5
    );
}

fn letter(out: &mut String, middle: u32, letter: &str, class: &str) {
    let _ = write!(out, r#"<text class="{class}" x="{middle}" y="11.5">{letter}</text>"#);
}
