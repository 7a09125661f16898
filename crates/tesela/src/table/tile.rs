//! GPUs drawn as tiles: large, with the names of the instances, and small, one column for each memory unit.

use tesela_model::layout::Instance;

use super::text::{Line, Style};

/// How large tiles of a product are drawn.
pub(crate) struct Scale {
    units: u32,
    /// Columns of one memory unit, its right border included.
    unit: usize,
}

impl Scale {
    /// The smallest scale at which every instance shows its whole name, if the tile then fits `limit` columns;
    /// else the largest that fits.
    pub(crate) fn fitting<'a>(
        units: u32,
        instances: impl IntoIterator<Item = &'a Instance>,
        limit: usize,
    ) -> Self {
        let needed = |i: &Instance| (i.profile.as_str().len() + 1).div_ceil(i.size.max(1) as usize);
        let wanted = instances.into_iter().map(needed).max().unwrap_or(0);
        let most = limit.saturating_sub(1) / (units.max(1) as usize);
        Self { units, unit: wanted.min(most).max(2) }
    }

    /// Whether some name is cut at this scale.
    pub(crate) fn cuts<'a>(&self, instances: impl IntoIterator<Item = &'a Instance>) -> bool {
        instances.into_iter().any(|i| i.profile.as_str().len() > self.room(i.size))
    }

    fn room(&self, size: u32) -> usize {
        (size as usize * self.unit).saturating_sub(1)
    }

    /// `│1g.10gb│1g.10gb│2g.20gb        │░░░░…│`: instances by start, units that no instance takes hatched.
    pub(crate) fn tile(&self, instances: &[Instance]) -> Line {
        let mut line = Line::plain("│");
        let mut unit = 0;
        while unit < self.units {
            match instances.iter().find(|i| i.start == unit && i.size > 0) {
                Some(instance) => {
                    let room = self.room(instance.size);
                    line.push(Style::Good, format!("{:room$}", name_in(instance.profile.as_str(), room)));
                    unit += instance.size;
                }
                None => {
                    line.push(Style::Faint, "░".repeat(self.room(1)));
                    unit += 1;
                }
            }
            line.push(Style::Plain, "│");
        }
        line
    }
}

/// The name, or what of it fits: the slices with their suffix, else the slices.
fn name_in(name: &str, room: usize) -> String {
    if name.len() <= room {
        return name.to_owned();
    }
    let slices = name.split('.').next().unwrap_or(name);
    let suffix = name.find(['+', '-']).map_or("", |at| &name[at..]);
    let short = format!("{slices}{suffix}");
    if short.len() <= room { short } else { slices.chars().take(room).collect() }
}

/// Columns of a small tile, whatever the product.
pub(crate) const SMALL: usize = 8;

/// What is to be seen of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Face {
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
    /// MIG is on, and what is cut is not known.
    Unknown,
}

/// An instance on a small tile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    /// First memory unit.
    pub(crate) start: u32,
    /// Memory units.
    pub(crate) size: u32,
    /// Compute slices by name.
    pub(crate) slices: u32,
    /// Whether pods take turns on it.
    pub(crate) shared: bool,
    /// Whether a pod holds it.
    pub(crate) held: bool,
}

impl Face {
    /// Whether any pod holds something of it.
    pub(crate) fn held(&self) -> bool {
        match self {
            Self::Whole { held } => *held,
            Self::Shared { held, .. } => *held > 0,
            Self::Cut { pieces, .. } => pieces.iter().any(|p| p.held),
            Self::Unknown => false,
        }
    }

    /// Whether its shares are too many to draw, so that they stand there in figures.
    pub(crate) fn in_figures(&self) -> bool {
        match self {
            Self::Shared { mps, replicas, held } => drawn_shares(*mps, *replicas, *held).is_none(),
            _ => false,
        }
    }

    /// The small tile, [`SMALL`] columns wide.
    pub(crate) fn tile(&self) -> Line {
        let mut line = match self {
            Self::Whole { held: true } => Line::styled(Style::Good, "█".repeat(SMALL)),
            Self::Whole { held: false } => Line::styled(Style::Faint, "·".repeat(SMALL)),
            Self::Shared { mps, replicas, held } => shared(*mps, *replicas, *held),
            Self::Cut { units, pieces } => cut(*units, pieces),
            Self::Unknown => Line::styled(Style::Warn, "?".repeat(SMALL)),
        };
        line.pad_to(SMALL);
        line
    }
}

/// `÷4 ■■■□`, and in figures where the shares are too many to draw: `÷16  11`.
fn shared(mps: bool, replicas: u32, held: u64) -> Line {
    let mut line = share_sign(mps, replicas);
    let room = SMALL.saturating_sub(line.width());
    match drawn_shares(mps, replicas, held) {
        Some((full, free)) => {
            line.push(Style::Good, "■".repeat(full));
            line.push(Style::Faint, "□".repeat(free));
        }
        None => line.push(Style::Good, format!("{held:>room$}")),
    }
    line
}

/// Shares held and free, where each can be drawn.
fn drawn_shares(mps: bool, replicas: u32, held: u64) -> Option<(usize, usize)> {
    let room = SMALL.saturating_sub(share_sign(mps, replicas).width());
    let (full, all) = (usize::try_from(held).ok()?, replicas as usize);
    (all <= room && full <= all).then(|| (full, all - full))
}

fn share_sign(mps: bool, replicas: u32) -> Line {
    Line::plain(format!("{}{replicas} ", if mps { "M" } else { "÷" }))
}

/// One column for each memory unit of a GPU with eight, two for one with four.
fn cut(units: u32, pieces: &[Piece]) -> Line {
    let wide = (SMALL / (units.max(1) as usize)).max(1);
    let mut line = Line::default();
    let mut unit = 0;
    while unit < units {
        let Some(piece) = pieces.iter().find(|p| p.start == unit && p.size > 0) else {
            line.push(Style::Faint, "░".repeat(wide));
            unit += 1;
            continue;
        };
        let rest = piece.size as usize * wide - 1;
        if piece.held {
            let slices = piece.slices.to_string();
            let fill = if piece.shared { "÷" } else { "━" };
            line.push(Style::Good, slices.chars().last().map(String::from).unwrap_or_default());
            line.push(Style::Good, fill.repeat(rest));
        } else {
            line.push(Style::Faint, format!("┆{}", "╌".repeat(rest)));
        }
        unit += piece.size;
    }
    line
}

/// Equal tiles once, with their number, on one line: `4× ████████  2× 1111111░`.
pub(crate) fn row(faces: &[Face]) -> Line {
    rows(faces, usize::MAX).into_iter().next().unwrap_or_default()
}

/// The same on lines of at most `limit` columns.
pub(crate) fn rows(faces: &[Face], limit: usize) -> Vec<Line> {
    let mut sorted = faces.to_vec();
    // Held ones first; among them the order of the kinds, so that equal nodes read the same.
    sorted.sort_by_key(|f| (!f.held(), f.clone()));
    let mut lines = Vec::new();
    let mut line = Line::default();
    for run in sorted.chunk_by(|a, b| a == b) {
        let mut tile = Line::plain(format!("{}× ", run.len()));
        tile.append(&run[0].tile());
        if line.width() > 0 {
            if line.width() + 2 + tile.width() > limit {
                lines.push(std::mem::take(&mut line));
            } else {
                line.push(Style::Plain, "  ");
            }
        }
        line.append(&tile);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use tesela_model::product::ProfileName;

    use super::*;

    fn instances(list: &[(&str, u32, u32)]) -> Vec<Instance> {
        let instance = |(name, start, size): &(&str, u32, u32)| Instance {
            profile: ProfileName::parse(name).unwrap(),
            start: *start,
            size: *size,
        };
        list.iter().map(instance).collect()
    }

    #[test]
    fn large_tiles_keep_their_proportions() {
        let all = instances(&[("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("3g.40gb", 4, 4)]);
        let scale = Scale::fitting(8, &all, 80);
        assert_eq!(scale.tile(&all).width(), 65);
        assert_eq!(
            scale.tile(&all).text(),
            "│1g.10gb│1g.10gb│░░░░░░░│░░░░░░░│3g.40gb                        │"
        );
        assert!(!scale.cuts(&all));
        let narrow = Scale::fitting(8, &all, 40);
        assert!(narrow.cuts(&all));
        assert_eq!(narrow.tile(&all).text(), "│1g │1g │░░░│░░░│3g.40gb        │");
    }

    #[test]
    fn small_tiles_have_one_width() {
        let piece = |start, size, slices, held| Piece { start, size, slices, shared: false, held };
        let cases = [
            (Face::Whole { held: true }, "████████"),
            (Face::Whole { held: false }, "········"),
            (Face::Shared { mps: false, replicas: 4, held: 3 }, "÷4 ■■■□ "),
            (Face::Shared { mps: false, replicas: 16, held: 11 }, "÷16   11"),
            (Face::Shared { mps: true, replicas: 2, held: 5 }, "M2     5"),
            (
                Face::Cut {
                    units: 8,
                    pieces: vec![
                        piece(0, 1, 1, true),
                        piece(1, 1, 1, false),
                        piece(2, 2, 2, true),
                        piece(4, 2, 2, false),
                    ],
                },
                "1┆2━┆╌░░",
            ),
            (Face::Cut { units: 4, pieces: vec![piece(0, 1, 1, true), piece(2, 2, 2, true)] }, "1━░░2━━━"),
            (Face::Unknown, "????????"),
        ];
        for (face, tile) in cases {
            assert_eq!(face.tile().text(), tile);
            assert_eq!(face.tile().width(), SMALL);
        }
    }

    #[test]
    fn equal_tiles_are_counted() {
        let faces = [Face::Whole { held: false }, Face::Whole { held: true }, Face::Whole { held: false }];
        assert_eq!(row(&faces).text(), "1× ████████  2× ········");
        let lines = rows(&faces, 20).iter().map(Line::text).collect::<Vec<_>>();
        assert_eq!(lines, ["1× ████████", "2× ········"]);
    }
}
