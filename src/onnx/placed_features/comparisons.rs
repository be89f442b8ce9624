//! What a graph makes of each token alone: which tokens it compares with what, as masks of placeholders are made.

use super::id_sets::IdSet;
use super::{LONGEST, Looking, is_standard};
use crate::onnx::element::ElementType;
use crate::onnx::fixed_caches::{attribute, has};
use crate::onnx::protobuf::NodeProto;
use crate::onnx::tensor::Tensor;

/// What is made of some tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Token,
    /// The token as a number of float32, which is rounded if it is large.
    Rounded,
    /// The greatest and the least one stand for infinities.
    Number(i64),
}

/// What is made of tokens, of each in one of the sets.
type Pieces = Vec<(IdSet, Made)>;

/// More pieces are not looked at.
const MOST: usize = 32;
/// Whole numbers with smaller magnitudes are numbers of float32, and so are those beside them.
const EXACT: i64 = 1 << 24;

/// For which tokens something is true.
fn truth(set: &IdSet) -> Pieces {
    vec![(set.clone(), Made::Number(1)), (set.not(), Made::Number(0))]
}

impl Looking<'_> {
    /// For which tokens a truth value is true, or a number is 1 and not 0, that is made of each token alone.
    pub(super) fn tokens_of(&self, name: &str) -> Option<IdSet> {
        true_of(&self.pieces(name, LONGEST)?)
    }

    fn pieces(&self, name: &str, depth: usize) -> Option<Pieces> {
        if name == self.ids {
            return Some(vec![(IdSet::all(), Made::Token)]);
        }
        if let Some(number) = self.constant(name).as_ref().and_then(number) {
            return Some(vec![(IdSet::all(), Made::Number(number))]);
        }
        // Operands that many have in common are looked at again for each.
        self.work.set(self.work.get().checked_sub(1)?);
        let (_, node) = self.maker(name).filter(|(_, node)| is_standard(node))?;
        let of = |input: usize| self.pieces(node.input.get(input)?, depth.checked_sub(1)?);
        let true_of = |input: usize| true_of(&of(input)?);
        let pieces = match (node.op_type.as_str(), node.input.len()) {
            ("Identity", 1) => of(0)?,
            ("Cast", 1) => cast(of(0)?, node)?,
            ("Not", 1) => truth(&true_of(0)?.not()),
            ("And", 2) => truth(&true_of(0)?.and(&true_of(1)?)),
            ("Or", 2) => truth(&true_of(0)?.or(&true_of(1)?)),
            ("Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual", 2) => {
                let (a, b) = (of(0)?, of(1)?);
                let relation = match node.op_type.as_str() {
                    "Equal" => less(&a, &b, 0).not().and(&less(&b, &a, 0).not()),
                    "Less" => less(&a, &b, 0),
                    "Greater" => less(&b, &a, 0),
                    "LessOrEqual" => less(&a, &b, 1),
                    _ => less(&b, &a, 1),
                };
                truth(&relation)
            }
            ("Where", 3) => {
                let set = true_of(0)?;
                [within(of(1)?, &set), within(of(2)?, &set.not())].concat()
            }
            ("Max" | "Min", 2) => greater(&of(0)?, &of(1)?, node.op_type == "Max"),
            ("Clip", 2 | 3) => {
                let mut pieces = of(0)?;
                for (input, is_least) in [(1, true), (2, false)] {
                    if has(node, input) {
                        pieces = greater(&pieces, &of(input)?, is_least);
                    }
                }
                pieces
            }
            _ => return None,
        };
        let pieces: Pieces = pieces.into_iter().filter(|(set, _)| !set.is_empty()).collect();
        (pieces.len() <= MOST).then_some(pieces)
    }
}

/// For which tokens there is 1, where there is 0 for the others.
fn true_of(pieces: &Pieces) -> Option<IdSet> {
    let mut all = IdSet::all().not();
    for (set, made) in pieces {
        match made {
            Made::Number(1) => all = all.or(set),
            Made::Number(0) => {}
            _ => return None,
        }
    }
    Some(all)
}

/// A number as types have it that hold all tokens, or that hold it and what is beside it.
pub(super) fn number(tensor: &Tensor) -> Option<i64> {
    // Of one element, which has no more dimensions than the tokens.
    if tensor.shape.len() > 2 || tensor.shape.iter().any(|&size| size != 1) {
        return None;
    }
    match tensor.element {
        ElementType::Bool | ElementType::Int32 | ElementType::Int64 => tensor.integers().first().copied(),
        ElementType::Float | ElementType::Double => match *tensor.floats().first()? {
            f64::INFINITY => Some(i64::MAX),
            f64::NEG_INFINITY => Some(i64::MIN),
            number if number.fract() == 0.0 && number.abs() < EXACT as f64 => Some(number as i64),
            _ => None,
        },
        _ => None,
    }
}

fn cast(pieces: Pieces, node: &NodeProto) -> Option<Pieces> {
    // Whatever the type, truth stays truth.
    if true_of(&pieces).is_some() {
        return Some(pieces);
    }
    let fits = |made: &Made, holds: &dyn Fn(i64) -> bool| !matches!(made, Made::Number(number) if !holds(*number));
    match ElementType::from_number(attribute(node, "to")?).ok()? {
        ElementType::Int32 | ElementType::Int64 => {
            let is_whole = |made: &Made| *made != Made::Rounded && fits(made, &|number| i32::try_from(number).is_ok());
            pieces.iter().all(|(_, made)| is_whole(made)).then_some(pieces)
        }
        ElementType::Float | ElementType::Double => {
            let is_exact = |number: i64| number.unsigned_abs() < EXACT as u64 || matches!(number, i64::MIN | i64::MAX);
            let rounded = |made| if made == Made::Token { Made::Rounded } else { made };
            let are_exact = pieces.iter().all(|(_, made)| fits(made, &is_exact));
            are_exact.then(|| pieces.into_iter().map(|(set, made)| (set, rounded(made))).collect())
        }
        _ => None,
    }
}

fn within(pieces: Pieces, set: &IdSet) -> Pieces {
    pieces.into_iter().map(|(own, made)| (own.and(set), made)).collect()
}

/// For which tokens a number is less than another one, or than one that is so much greater.
fn less(a: &Pieces, b: &Pieces, more: i64) -> IdSet {
    let mut all = IdSet::all().not();
    for ((of_a, a), (of_b, b)) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
        let set = match (*a, *b) {
            (Made::Token | Made::Rounded, Made::Number(b)) => IdSet::between(i64::MIN, b.saturating_sub(1).saturating_add(more)),
            (Made::Number(a), Made::Token | Made::Rounded) => IdSet::between(a.saturating_add(1).saturating_sub(more), i64::MAX),
            (Made::Number(a), Made::Number(b)) if a < b || a == b && more > 0 => IdSet::all(),
            (Made::Token | Made::Rounded, Made::Token | Made::Rounded) if more > 0 => IdSet::all(),
            _ => IdSet::all().not(),
        };
        all = all.or(&set.and(&of_a.and(of_b)));
    }
    all
}

/// The greater one of two numbers, or the smaller one.
fn greater(a: &Pieces, b: &Pieces, is_greater: bool) -> Pieces {
    let takes_b = if is_greater { less(a, b, 0) } else { less(b, a, 0) };
    [within(a.clone(), &takes_b.not()), within(b.clone(), &takes_b)].concat()
}
