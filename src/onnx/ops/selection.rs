//! NonMaxSuppression and Unique: how many elements they give depends on those that they are given.

use crate::looks::{self, Looking};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
use crate::onnx::node::{Node, axis};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;
use std::cmp::Ordering;

/// Nanoseconds that an element takes, or a comparison.
const COST: usize = 4;

/// A box by its corners.
#[derive(Clone, Copy)]
struct Corners {
    low: [f32; 2],
    high: [f32; 2],
}

impl Corners {
    /// Two opposite corners, or the center with width and height.
    fn of(numbers: &[f32], has_center: bool) -> Corners {
        let &[a, b, c, d] = numbers else { return Corners { low: [0.0; 2], high: [0.0; 2] } };
        match has_center {
            true => Corners { low: [a - c / 2.0, b - d / 2.0], high: [a + c / 2.0, b + d / 2.0] },
            false => Corners { low: [a.min(c), b.min(d)], high: [a.max(c), b.max(d)] },
        }
    }

    fn area(&self) -> f32 {
        (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])
    }

    /// Whether the intersection is more than that part of the union.
    fn overlaps(&self, other: &Corners, threshold: f32) -> bool {
        let side = |i: usize| self.high[i].min(other.high[i]) - self.low[i].max(other.low[i]);
        let (width, height) = (side(0), side(1));
        if width <= 0.0 || height <= 0.0 || self.area() <= 0.0 || other.area() <= 0.0 {
            return false;
        }
        let intersection = width * height;
        let union = self.area() + other.area() - intersection;
        union > 0.0 && intersection / union > threshold
    }
}

fn scalar(node: &Node<'_>, position: usize, meaning: &str) -> Mapped<Option<f64>> {
    let Some(tensor) = node.optional_constant(position, meaning)? else { return Ok(None) };
    let &[number] = &tensor.floats()[..] else { return Err(format!("{meaning} is no scalar").into()) };
    Ok(Some(number))
}

/// For each image and class the boxes of the highest scores, without those that overlap one that was chosen: [image, class, box].
pub fn non_max_suppression(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (boxes, scores) = (node.constant(0, "the boxes")?, node.constant(1, "the scores")?);
    let (&[images, count, 4], &[batch, classes, of]) = (&boxes.shape[..], &scores.shape[..]) else {
        return Err(format!("boxes of {:?} and scores of {:?}", boxes.shape, scores.shape).into());
    };
    if (images, count) != (batch, of) {
        return Err(format!("boxes of {:?} and scores of {:?}", boxes.shape, scores.shape).into());
    }
    let most = match node.optional_constant(2, "the number of boxes")? {
        Some(tensor) => tensor.integers().first().map_or(0, |&most| usize::try_from(most).unwrap_or(0)),
        None => 0,
    };
    let overlap = scalar(node, 3, "the overlap")?.unwrap_or(0.0) as f32;
    let least = scalar(node, 4, "the least score")?.map(|score| score as f32);
    if !(0.0..=1.0).contains(&overlap) {
        return Err(format!("an overlap of {overlap}, where 0 to 1 are allowed").into());
    }
    let has_center = match node.int("center_point_box", 0)? {
        0 => false,
        1 => true,
        other => return Err(format!("center_point_box {other}, where 0 or 1 are allowed").into()),
    };
    if !emit.folding.affords(&boxes.shape) || !emit.folding.affords(&scores.shape) {
        return Err("too many boxes".into());
    }
    let single = |tensor: &Tensor| tensor.floats().into_iter().looking(1).map(|x| x as f32).collect::<Vec<f32>>();
    let (boxes, scores) = (single(boxes), single(scores));
    let corners: Vec<Corners> = boxes.chunks(4).looking(COST).map(|numbers| Corners::of(numbers, has_center)).collect();
    let mut chosen: Vec<i64> = Vec::new();
    for image in 0..images {
        for class in 0..classes {
            let scores = &scores[(image * classes + class) * count..][..count];
            let mut order: Vec<usize> = (0..count).looking(1).filter(|&i| least.is_none_or(|least| scores[i] > least)).collect();
            // The first of equal scores comes first; what is no number comes last.
            order.sort_by(|&a, &b| {
                looks::worked(COST);
                scores[b].partial_cmp(&scores[a]).unwrap_or_else(|| scores[a].is_nan().cmp(&scores[b].is_nan()))
            });
            let mut kept: Vec<usize> = Vec::new();
            for i in order {
                if kept.len() >= most {
                    break;
                }
                emit.folding.require(kept.len() * 16)?;
                looks::worked(COST * (1 + kept.len()));
                let corners = &corners[image * count..];
                if kept.iter().all(|&other| !corners[i].overlaps(&corners[other], overlap)) {
                    kept.push(i);
                }
            }
            chosen.extend(kept.into_iter().flat_map(|i| [image as i64, class as i64, i as i64]));
        }
    }
    Ok(vec![Tensor::from_integers(ElementType::Int64, vec![chosen.len() / 3, 3], &chosen).into()])
}

/// Numbers in order; what is no number is equal to itself and comes last.
fn compare(a: &f64, b: &f64) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// What occurs, each once; where it occurs first; which one stands where; and how often each occurs.
pub fn unique(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = node.constant(0, "what is looked through")?;
    if !emit.folding.affords(&input.shape) {
        return Err("too many elements to look through".into());
    }
    let sorted = node.flag("sorted", true)?;
    let at = node.optional_int("axis")?.map(|at| axis(at, input.shape.len())).transpose()?;
    // Without an axis it is one line of elements.
    let input = if at.is_some() { input.clone() } else { input.reshaped(vec![input.count()]) };
    let at = at.unwrap_or(0);
    let (slices, outer) = (input.shape[at], input.shape[..at].iter().product::<usize>());
    let inner: usize = input.shape[at + 1..].iter().product();
    // Whole numbers beyond 2^53 are not to be taken for each other.
    let whole = if input.element.is_float() { Vec::new() } else { input.wholes() };
    let floats = if input.element.is_float() { input.floats() } else { Vec::new() };
    let order_of = |a: usize, b: usize| {
        let places = (0..outer).flat_map(|i| (0..inner).map(move |k| (i, k)));
        let at = |slice: usize, (i, k): (usize, usize)| (i * slices + slice) * inner + k;
        let compared = places.map(|place| match floats.is_empty() {
            true => whole[at(a, place)].cmp(&whole[at(b, place)]),
            false => compare(&floats[at(a, place)], &floats[at(b, place)]),
        });
        compared.looking(COST).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    let mut order: Vec<usize> = (0..slices).collect();
    order.sort_by(|&a, &b| order_of(a, b));
    // Runs of equal slices: the first of each run came first, since the order is stable.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for slice in order.into_iter().looking(COST) {
        match groups.last_mut() {
            Some(group) if order_of(group[0], slice).is_eq() => group.push(slice),
            _ => groups.push(vec![slice]),
        }
    }
    if !sorted {
        groups.sort_by_key(|group| {
            looks::worked(1);
            group[0]
        });
    }
    let first: Vec<i64> = groups.iter().looking(COST).map(|group| group[0] as i64).collect();
    let counts: Vec<i64> = groups.iter().looking(COST).map(|group| group.len() as i64).collect();
    let mut inverse = vec![0; slices];
    for (number, group) in groups.iter().enumerate() {
        group.iter().looking(COST).for_each(|&slice| inverse[slice] = number as i64);
    }
    let values = fold::gather(&input, &Tensor::int64s(&first), at)?;
    Ok(vec![values.into(), Tensor::int64s(&first).into(), Tensor::int64s(&inverse).into(), Tensor::int64s(&counts).into()])
}
