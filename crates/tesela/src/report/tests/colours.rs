//! Contrast as WCAG 2.2 reckons it, from the variables of the style.

use std::collections::BTreeMap;

const STYLE: &str = include_str!("../style.css");

/// What is written on what; 4.5 is asked of text (WCAG 2.2, 1.4.3).
const TEXT: [(&str, &str); 10] = [
    ("ink", "bg"),
    ("muted", "bg"),
    ("good", "bg"),
    ("bad", "bg"),
    ("warn", "bg"),
    ("focus", "bg"),
    ("on-whole", "whole"),
    ("on-mig", "mig"),
    ("on-share", "share"),
    ("ink", "soft"),
];
/// What is drawn on what; 3 is asked of graphics (1.4.11).
const DRAWN: [(&str, &str); 5] =
    [("free", "bg"), ("whole", "bg"), ("mig", "bg"), ("share", "bg"), ("focus", "bg")];

/// The variables of each `:root`: light, dark, print.
fn schemes() -> Vec<BTreeMap<String, String>> {
    let blocks = STYLE.split(":root{").skip(1).map(|rest| rest.split('}').next().unwrap());
    let variables = |block: &str| {
        let pairs = block.split(';').filter_map(|pair| pair.trim().strip_prefix("--")?.split_once(':'));
        pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    };
    blocks.map(variables).collect()
}

fn luminance(colour: &str) -> f64 {
    let digits = colour.strip_prefix('#').unwrap();
    let wide = if digits.len() == 3 {
        digits.chars().flat_map(|c| [c, c]).collect::<String>()
    } else {
        digits.to_owned()
    };
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_colour_is_told_from_its_ground() {
    assert!((contrast("#000", "#ffffff") - 21.0).abs() < 1e-9);
    let schemes = schemes();
    assert_eq!(schemes.len(), 3, "light, dark and print");
    for scheme in schemes {
        for (pairs, least) in [(&TEXT[..], 4.5), (&DRAWN[..], 3.0)] {
            for (front, ground) in pairs {
                let found = contrast(&scheme[*front], &scheme[*ground]);
                assert!(found >= least, "{front} on {ground}: {found:.2} in {scheme:?}");
            }
        }
    }
}

#[test]
fn every_colour_is_a_variable() {
    let rules = STYLE.split(":root{").map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    for rule in rules {
        assert!(!rule.contains("#f") && !rule.contains(":#"), "{rule}");
    }
}
