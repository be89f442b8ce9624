//! Products of matrices against their definitions.

use crate::onnx::element::ElementType::{self, *};
use crate::onnx::protobuf::AttributeProto;
use crate::onnx::tensor::Tensor;
use crate::onnx::testing::*;
use std::collections::BTreeMap;

/// Whole numbers around 0.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| (((i * 7 + seed * 13 + 5) * 31) % 17) as f64 - 8.0).collect()
}

fn result(operator: &str, inputs: &[Tensor], attributes: Vec<AttributeProto>) -> Result<Tensor, String> {
    let names = ["a", "b", "c"];
    let mut model = sketch(17);
    for (name, input) in names.iter().zip(inputs) {
        let shape: Vec<i64> = input.shape.iter().map(|&size| size as i64).collect();
        model = model.input(name, number_of(input.element), &shape);
    }
    let model = model.node(operator, &names[..inputs.len()], &["y"], attributes).output("y");
    let imported = model.import().map_err(|error| error.to_string())?;
    Ok(run(&imported, inputs).remove(0))
}

/// What an equation means whose terms have a letter for each dimension: the sum over all letters of the output's element that
/// they name.
fn defined(terms: &[&str], output: &str, inputs: &[Tensor]) -> (Vec<usize>, Vec<f64>) {
    let mut sizes: BTreeMap<char, usize> = BTreeMap::new();
    for (term, input) in terms.iter().zip(inputs) {
        for (letter, &size) in term.chars().zip(&input.shape) {
            let known = sizes.entry(letter).or_insert(size);
            *known = size.max(*known);
        }
    }
    let values: Vec<Vec<f64>> = inputs.iter().map(Tensor::floats).collect();
    let shape: Vec<usize> = output.chars().map(|letter| sizes[&letter]).collect();
    let mut sums = vec![0.0; shape.iter().product()];
    for number in 0..sizes.values().product::<usize>() {
        let mut rest = number;
        let place: BTreeMap<char, usize> = sizes
            .iter()
            .map(|(&letter, &size)| {
                let at = rest % size;
                rest /= size;
                (letter, at)
            })
            .collect();
        let offset = |letters: &str, shape: &[usize]| {
            letters
                .chars()
                .zip(shape)
                .fold(0, |offset, (letter, &size)| offset * size + if size == 1 { 0 } else { place[&letter] })
        };
        let product: f64 =
            terms.iter().zip(inputs).zip(&values).map(|((term, input), values)| values[offset(term, &input.shape)]).product();
        sums[offset(output, &shape)] += product;
    }
    (shape, sums)
}

#[test]
fn equations_of_einsum() {
    // The equation, the shapes, and the same with a letter for each dimension.
    type Case = (&'static str, &'static [&'static [usize]], &'static [&'static str], &'static str);
    let cases: &[Case] = &[
        ("ij,jk->ik", &[&[2, 3], &[3, 4]], &["ij", "jk"], "ik"),
        ("...ij,...jk->...ik", &[&[2, 5, 2, 3], &[3, 4]], &["xyij", "jk"], "xyik"),
        ("...ij,...jk->...ik", &[&[2, 1, 2, 3], &[5, 3, 4]], &["xyij", "yjk"], "xyik"),
        ("...ij,jk", &[&[5, 2, 3], &[3, 4]], &["xij", "jk"], "xik"),
        ("i...,j...->ij...", &[&[2, 4], &[3, 4]], &["ix", "jx"], "ijx"),
        ("i...j->...", &[&[2, 4, 5, 3]], &["ixyj"], "xy"),
        ("...", &[&[2, 4]], &["xy"], "xy"),
        ("...->...", &[&[]], &[""], ""),
        ("...i->i", &[&[4]], &["i"], "i"),
        ("ii->i", &[&[4, 4]], &["ii"], "i"),
        ("ii", &[&[4, 4]], &["ii"], ""),
        ("iji->j", &[&[3, 2, 3]], &["iji"], "j"),
        ("iii->i", &[&[3, 3, 3]], &["iii"], "i"),
        ("iijj->ij", &[&[2, 2, 3, 3]], &["iijj"], "ij"),
        ("...ii->...i", &[&[2, 3, 4, 4]], &["xyii"], "xyi"),
        ("ii,i->i", &[&[1, 1], &[4]], &["ii", "i"], "i"),
        ("bij,bjj->bi", &[&[2, 3, 4], &[2, 4, 4]], &["bij", "bjj"], "bi"),
        ("ij,ij->ij", &[&[1, 3], &[2, 1]], &["ij", "ij"], "ij"),
        ("i,i->", &[&[1], &[4]], &["i", "i"], ""),
        ("a B , Bc -> ca", &[&[2, 3], &[3, 4]], &["aB", "Bc"], "ca"),
        ("ba", &[&[2, 3]], &["ba"], "ab"),
        (",i->i", &[&[], &[3]], &["", "i"], "i"),
        ("i...,...k,k->i...", &[&[2, 3], &[3, 4], &[4]], &["ix", "xk", "k"], "ix"),
    ];
    for element in [Float, Float16, Int32, Int64] {
        for (equation, shapes, terms, output) in cases {
            let inputs: Vec<Tensor> = shapes
                .iter()
                .enumerate()
                .map(|(seed, shape)| {
                    let numbers = numbers(shape.iter().product(), seed);
                    Tensor::from_floats(Float, shape.to_vec(), &numbers).cast(element)
                })
                .collect();
            let found = result("Einsum", &inputs, vec![text("equation", equation)]).unwrap();
            // All numbers on the way are whole and small.
            assert_eq!((found.shape.clone(), found.floats()), defined(terms, output, &inputs), "{equation} of {element}");
        }
    }
}

#[test]
fn what_is_no_equation_is_refused() {
    let refused = |equation: &str, shapes: &[&[usize]], part: &str| {
        let input = |shape: &&[usize]| Tensor::from_floats(Float, shape.to_vec(), &vec![1.0; shape.iter().product()]);
        let inputs: Vec<Tensor> = shapes.iter().map(input).collect();
        let error = result("Einsum", &inputs, vec![text("equation", equation)]).unwrap_err();
        assert!(error.contains(part), "{equation}: {error}");
    };
    refused("ij->ij", &[&[2, 3, 4]], "2 letters for input 0 of rank 3");
    refused("...ij->...ij", &[&[2]], "2 letters for input 0 of rank 1");
    refused("ij,jk->ik", &[&[2, 3]], "2 terms for 1 inputs");
    refused("i->ii", &[&[2]], "names i twice");
    refused("i->j", &[&[2]], "no input has the letter j");
    refused("...i->i", &[&[2, 3]], "leaves out");
    refused("i..->i", &[&[2]], "'.'");
    refused("......i->i", &[&[2]], "'.'");
    refused("ii->i", &[&[2, 3]], "two sizes");
    refused("ij,jk->ik", &[&[2, 3], &[4, 5]], "two sizes");
    refused("i1->i", &[&[2, 3]], "'1'");
}

/// Numbers of a type that overflow in products.
fn wholes(element: ElementType, count: usize, seed: usize) -> Vec<i128> {
    let (low, high) = element.range();
    let mut state = seed as u64;
    (0..count)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match i % 5 {
                0 => high - i128::from(state >> 62),
                1 => low + i128::from(state >> 62),
                _ => low + i128::from(state).rem_euclid(high - low + 1),
            }
        })
        .collect()
}

/// The low bits of the exact product of `[m, k]` and `[k, n]`.
fn product(a: &[i128], b: &[i128], [m, k, n]: [usize; 3]) -> Vec<i128> {
    let at = |i: usize| (0..k).fold(0i128, |sum, l| sum.wrapping_add(a[i / n * k + l].wrapping_mul(b[l * n + i % n])));
    (0..m * n).map(at).collect()
}

#[test]
fn products_of_integers_wrap_around() {
    for element in [Int32, Uint32, Int64, Uint64] {
        let tensor = |shape: &[usize], numbers: &[i128]| Tensor::from_wholes(element, shape.to_vec(), numbers);
        let (m, k, n) = (3, 37, 5);
        let (a, b, c) = (wholes(element, 2 * m * k, 1), wholes(element, k * n, 2), wholes(element, n, 3));
        let stacks: Vec<i128> = a.chunks(m * k).flat_map(|a| product(a, &b, [m, k, n])).collect();
        let found = result("MatMul", &[tensor(&[2, m, k], &a), tensor(&[k, n], &b)], vec![]).unwrap();
        assert_eq!(found, tensor(&[2, m, n], &stacks));
        let found = result("MatMul", &[tensor(&[2 * m, k], &a), tensor(&[k, n], &b)], vec![]).unwrap();
        assert_eq!(found, tensor(&[2 * m, n], &stacks));
        let found = result("MatMul", &[tensor(&[k], &a[..k]), tensor(&[k, n], &b)], vec![]).unwrap();
        assert_eq!(found, tensor(&[n], &stacks[..n]));
        // Transposed, with factors and what is added.
        let transposed: Vec<i128> = (0..k * n).map(|i| b[i % k * n + i / k]).collect();
        let inputs = [tensor(&[m, k], &a[..m * k]), tensor(&[n, k], &transposed), tensor(&[n], &c)];
        let attributes = vec![int("transB", 1), float("alpha", -3.0), float("beta", 2.0)];
        let expected: Vec<i128> =
            stacks[..m * n].iter().enumerate().map(|(i, x)| x.wrapping_mul(-3).wrapping_add(2 * c[i % n])).collect();
        assert_eq!(result("Gemm", &inputs, attributes).unwrap(), tensor(&[m, n], &expected));
        let found = result("Gemm", &[tensor(&[m, k], &a[..m * k]), tensor(&[k, n], &b)], vec![]).unwrap();
        assert_eq!(found, tensor(&[m, n], &stacks[..m * n]));
        let error = result("Gemm", &inputs, vec![int("transB", 1), float("alpha", 0.5)]).unwrap_err();
        assert!(error.contains("alpha = 0.5"), "{error}");
    }
}
