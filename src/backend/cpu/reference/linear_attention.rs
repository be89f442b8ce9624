//! Attention with a state of a fixed size, token by token, in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::linear_attention::{LinearAttention, Sizes};
use crate::looks::Looking;

pub fn linear_attention(op: &LinearAttention, arguments: &mut Arguments<'_, '_>) {
    let of = Sizes::new(op, |id| arguments.input(id).shape.to_vec());
    let Sizes { batch, tokens, heads, key_size, value_size, decays, rates, .. } = of;
    let elements = |id| arguments.input(id).elements::<f32>();
    let (query, key, value, state) = (elements(op.query), elements(op.key), elements(op.value), elements(op.state));
    let (decay, rate) = (op.decay.map(elements), op.rate.map(elements));
    let [output, states] = arguments.outputs() else { unreachable!("there are two outputs") };
    let (output, states) = (output.elements::<f32>(), states.elements::<f32>());
    states.fill(0.0);
    let (size, kept) = (key_size * value_size, op.states as usize);
    let mut matrix = scratch::filled(0.0, size);
    let mut change = scratch::filled(0.0, value_size);
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let place = (b * heads + h) * size;
        matrix.iter_mut().zip(&state[place..]).for_each(|(to, &from)| *to = f64::from(from));
        for t in 0..tokens {
            let row = b * tokens + t;
            let numbers =
                |of: &[f32], head: usize, heads: usize, size: usize, i: usize| f64::from(of[(row * heads + head) * size + i]);
            let key = |i: usize| numbers(key, of.key_head(h), of.key_heads, key_size, i);
            if let Some(decay) = decay {
                for (i, line) in matrix.chunks_exact_mut(value_size).enumerate().looking(value_size) {
                    let factor = numbers(decay, h, heads, decays, if decays == key_size { i } else { 0 }).exp();
                    line.iter_mut().for_each(|x| *x *= factor);
                }
            }
            for (j, change) in change.iter_mut().enumerate().looking(if rate.is_some() { key_size } else { 1 }) {
                *change = numbers(value, h, heads, value_size, j);
                if let Some(rate) = rate {
                    let known: f64 = (0..key_size).map(|i| matrix[i * value_size + j] * key(i)).sum();
                    *change = (*change - known) * numbers(rate, if rates == 1 { 0 } else { h }, rates, 1, 0);
                }
            }
            for (i, line) in matrix.chunks_exact_mut(value_size).enumerate().looking(value_size) {
                line.iter_mut().zip(&change).for_each(|(x, change)| *x += key(i) * change);
            }
            for head in h * of.group()..(h + 1) * of.group() {
                let query = |i: usize| numbers(query, of.query_head(head), of.query_heads, key_size, i);
                for j in (0..value_size).looking(key_size) {
                    let sum: f64 = (0..key_size).map(|i| matrix[i * value_size + j] * query(i)).sum();
                    output[(row * of.output_heads() + head) * value_size + j] = (op.scale * sum) as f32;
                }
            }
            if let Some(slot) = (t + kept).checked_sub(tokens) {
                let to = &mut states[slot * batch * heads * size + place..][..size];
                to.iter_mut().zip(&matrix).for_each(|(to, &from)| *to = from as f32);
            }
        }
    }
}
