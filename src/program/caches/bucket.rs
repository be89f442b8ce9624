//! Buckets: a plan may have more rows than a cache, of which the first ones are padding.

use super::padding::{Padded, PaddingInput, PaddingInputs};
use super::proof::{Front, State, in_bucket, in_bucket_of};
use super::refused;
use crate::error::Result;
use crate::graph::Graph;

/// How many rows plans have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// Few sizes, so that plans are soon made: at most an eighth of what a step reads is padding, or 63 rows.
    Large,
    /// Fewer sizes, for steps of several sequences, where padding is read: at most a third of what a step reads is padding, or 63 rows.
    Joined,
    /// Fewest sizes, for steps of several sequences whose attention reads no padding.
    Doubled,
    /// More sizes, for a model whose table of positions ends before the next large bucket.
    Small,
    /// As many rows as the cache has.
    #[default]
    Exact,
}

impl Bucket {
    /// The rows of the plan for a cache of so many rows.
    pub fn rows(self, rows: usize) -> usize {
        match self {
            Bucket::Large => rows.max(1).next_multiple_of((rows.next_power_of_two() / 16).max(64)),
            Bucket::Joined => rows.max(1).next_multiple_of((rows.next_power_of_two() / 4).max(64)),
            Bucket::Doubled => rows.next_power_of_two().max(512),
            Bucket::Small => rows.next_multiple_of(16),
            Bucket::Exact => rows,
        }
    }

    pub fn is_exact(self) -> bool {
        self == Bucket::Exact
    }
}

/// Changes the graph for so many rows so that it serves all lengths that `bucket` gives these rows for, and gives its new inputs, by their
/// names. `graph_of` gives the graph of a length.
///
/// # Errors
/// `NotSupportedError` where it is not shown that the padding changes nothing.
pub fn for_all_lengths(
    graph: Graph,
    rows: usize,
    bucket: impl Fn(usize) -> usize,
    graph_of: impl Fn(usize) -> Result<Graph>,
    is_cache: impl Fn(&str) -> bool,
) -> Result<(Graph, PaddingInputs)> {
    let lengths = lengths(rows, bucket);
    let graphs = [graph, graph_of(lengths[1])?, graph_of(lengths[2])?];
    let (graph, inputs) = in_bucket(graphs, lengths, is_cache).map_err(refused)?;
    Ok((graph, of(Padded::Appended, inputs)))
}

fn of(padded: Padded, inputs: Vec<(String, PaddingInput)>) -> PaddingInputs {
    inputs.into_iter().map(|(name, input)| (name, (padded, input))).collect()
}

/// The most rows, one less, and the fewest that a bucket has.
fn lengths(rows: usize, bucket: impl Fn(usize) -> usize) -> [usize; 3] {
    let least = (1..=rows).find(|&length| bucket(length) == rows).unwrap_or(rows);
    [rows, rows.saturating_sub(1), least]
}

/// The length that what is given of so many rows is filled up to: few, since the steps of calls whose values have the same length run together.
pub fn given_bucket(rows: usize) -> usize {
    rows.max(1).next_multiple_of((rows.next_power_of_two() / 4).max(32))
}

/// Changes a graph so that it serves all lengths of what is the same for every step that [`given_bucket`] gives `rows` for. `is_computed` is
/// for inputs that an earlier step has computed of it: in front of these there are numbers, and in front of the others zeros.
///
/// # Errors
/// As [`for_all_lengths`].
pub fn for_all_given<T>(
    rows: usize,
    graph_of: impl Fn(usize) -> Result<(Graph, T)>,
    is_computed: impl Fn(&str) -> bool,
    may_be_longer: impl Fn(&str) -> bool,
) -> Result<(Graph, T, PaddingInputs)> {
    let lengths = lengths(rows, given_bucket);
    let ((graph, rest), (less, _), (least, _)) = (graph_of(lengths[0])?, graph_of(lengths[1])?, graph_of(lengths[2])?);
    let front_of = |name: &str| if is_computed(name) { Front::Finite } else { Front::Zeros };
    let fits = |name: &str, state| match state {
        State::Exact => true,
        State::Padded { front, .. } => front <= Front::Finite && may_be_longer(name),
    };
    let (graph, inputs) = in_bucket_of("given", [graph, less, least], lengths, front_of, fits).map_err(refused)?;
    Ok((graph, rest, of(Padded::Given, inputs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buckets_have_little_padding() {
        let large = |rows| Bucket::Large.rows(rows);
        assert_eq!([0, 1, 64, 65, 512, 1024, 1025, 2048, 2049].map(large), [64, 64, 64, 128, 512, 1024, 1152, 2048, 2304]);
        for rows in 1..20_000 {
            let most = large(rows);
            assert!(most >= rows && most - rows <= (rows / 8).max(63), "{rows} in {most}");
        }
        let different =
            |bucket: Bucket| (0..32_768).map(|rows| bucket.rows(rows)).collect::<std::collections::BTreeSet<_>>().len();
        assert!(different(Bucket::Large) < 64, "{} plans", different(Bucket::Large));
        assert!(different(Bucket::Joined) < 20, "{} plans", different(Bucket::Joined));
        for rows in 1..20_000 {
            let most = Bucket::Joined.rows(rows);
            assert!(most >= rows && most - rows <= (most / 3).max(63), "{rows} in {most}");
        }
    }
}
