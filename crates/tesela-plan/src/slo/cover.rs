//! The cheapest whole instances that serve one rate: a knapsack with as many items as there are profiles.

/// Steps before giving up; what is left is then the fractional cost, which is never too high.
const MOST_STEPS: u32 = 200_000;

/// What a cover costs, and one that costs so (`None` when only the cost is known as a lower bound).
pub(super) struct Cover {
    pub(super) cost: u64,
    pub(super) counts: Option<Vec<u64>>,
}

struct Item {
    index: usize,
    price: u128,
    serves: u128,
}

struct Walk<'a> {
    items: &'a [Item],
    steps: u32,
    best: u128,
    counts: Vec<u64>,
    found: Option<Vec<u64>>,
}

/// The cheapest cover of `rate` by instances that serve `serves` each at `prices`. Some entry of `serves` is above 0.
pub(super) fn cheapest(rate: u64, serves: &[u64], prices: &[u64]) -> Cover {
    let mut items: Vec<Item> = Vec::new();
    for (index, (&serves, &price)) in serves.iter().zip(prices).enumerate() {
        if serves > 0 {
            items.push(Item { index, price: u128::from(price), serves: u128::from(serves) });
        }
    }
    // The best for the money first; price / serves compared crosswise.
    items.sort_by(|a, b| (a.price * b.serves).cmp(&(b.price * a.serves)).then(a.index.cmp(&b.index)));
    let mut walk =
        Walk { items: &items, steps: 0, best: u128::MAX, counts: vec![0; prices.len()], found: None };
    walk.go(0, u128::from(rate), 0);
    let small = |cost: u128| u64::try_from(cost).unwrap_or(u64::MAX);
    if walk.steps > MOST_STEPS {
        let fractional = items.first().map_or(0, |i| (u128::from(rate) * i.price).div_ceil(i.serves));
        return Cover { cost: small(fractional), counts: None };
    }
    Cover { cost: small(walk.best), counts: walk.found }
}

impl Walk<'_> {
    fn go(&mut self, at: usize, left: u128, cost: u128) {
        self.steps += 1;
        if left == 0 {
            if cost < self.best {
                self.best = cost;
                self.found = Some(self.counts.clone());
            }
            return;
        }
        let Some(item) = self.items.get(at) else { return };
        let most = left.div_ceil(item.serves);
        for count in (0..=most).rev() {
            let rest = left.saturating_sub(count * item.serves);
            let spent = cost + count * item.price;
            // Fewer of this item leave more to dearer ones, so from here on it only gets worse.
            let least = match self.items.get(at + 1) {
                _ if rest == 0 => spent,
                Some(next) => spent + (rest * next.price).div_ceil(next.serves),
                None => return,
            };
            if self.steps > MOST_STEPS || least >= self.best && rest > 0 {
                return;
            }
            if least >= self.best {
                // The last of these may serve more than is left; one fewer and something cheap may do.
                continue;
            }
            self.counts[item.index] = u64::try_from(count).unwrap_or(u64::MAX);
            self.go(at + 1, rest, spent);
            self.counts[item.index] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cover_is_what_a_table_finds() {
        let mut dice = 12_345u64;
        let mut next = |n: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % n
        };
        for _ in 0..300 {
            let serves: Vec<u64> =
                (0..4).map(|k| if k > 0 && next(4) == 0 { 0 } else { 1 + next(40) }).collect();
            let prices: Vec<u64> = (0..4).map(|_| 1 + next(20)).collect();
            let rate = 1 + next(300);
            // most[c] = the most that can be served for c.
            let mut most = vec![0u64];
            while most[most.len() - 1] < rate {
                let cost = most.len();
                let of = |(s, p): (&u64, &u64)| {
                    let before = cost.checked_sub(usize::try_from(*p).ok()?)?;
                    (*s > 0).then(|| most[before] + s)
                };
                let best = serves.iter().zip(&prices).filter_map(of).max().unwrap_or(0).max(most[cost - 1]);
                most.push(best);
            }
            let found = cheapest(rate, &serves, &prices);
            assert_eq!(found.cost, most.len() as u64 - 1, "{rate} {serves:?} {prices:?}");
            let counts = found.counts.expect("small");
            let sum = |of: &[u64]| counts.iter().zip(of).map(|(a, b)| a * b).sum::<u64>();
            assert!(sum(&serves) >= rate && sum(&prices) == found.cost);
        }
    }
}
