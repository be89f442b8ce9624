//! The kernels for images against the reference kernels, on every instruction set that this CPU has.

use super::tests::{check, check_fused, check_planes, check_with, check_with_filter};
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Clamp, LeakyRelu, Prelu};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::movement::Transpose;
use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
use crate::graph::{Number, Op, OperandId};

const STRIDES_DILATIONS_PADDING: [([u32; 2], [u32; 2], [u32; 4]); 9] = [
    ([1, 1], [1, 1], [0; 4]),
    ([1, 1], [1, 1], [1, 1, 1, 1]),
    ([2, 2], [1, 1], [1, 2, 0, 3]),
    ([2, 2], [1, 1], [1, 1, 1, 1]),
    ([1, 2], [2, 1], [3, 0, 2, 1]),
    ([1, 1], [1, 1], [2, 3, 4, 5]),
    ([1, 1], [2, 1], [1, 1, 1, 1]),
    ([1, 1], [3, 4], [2, 1, 6, 5]),
    // Elements of the window that are over padding in most rows, and in all columns.
    ([1, 1], [8, 40], [8, 8, 40, 40]),
];

pub fn conv(groups: u32, strides: [u32; 2], dilations: [u32; 2], padding: [u32; 4], bias: bool) -> Conv2d {
    Conv2d {
        input: OperandId(0),
        filter: OperandId(1),
        padding,
        strides,
        dilations,
        groups,
        input_layout: InputOperandLayout::Nhwc,
        filter_layout: Conv2dFilterOperandLayout::Oihw,
        bias: bias.then_some(OperandId(2)),
    }
}

/// The number of positions of a window.
fn positions(
    axis: usize,
    input: usize,
    window: usize,
    (strides, dilations, padding): ([u32; 2], [u32; 2], [u32; 4]),
) -> Option<usize> {
    let padded = input + (padding[2 * axis] + padding[2 * axis + 1]) as usize;
    let reach = padded.checked_sub((window - 1) * dilations[axis] as usize + 1)?;
    Some(reach / strides[axis] as usize + 1)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn convolutions() {
    let sizes = [
        // input in nhwc, output channels, filter, groups
        ([1, 20, 31, 3], 13, [3, 3], 1),
        ([1, 19, 23, 3], 64, [7, 7], 1),
        ([2, 14, 14, 16], 40, [1, 1], 1),
        ([1, 7, 7, 8], 30, [3, 2], 2),
        ([1, 9, 20, 70], 25, [5, 3], 1),
        ([1, 5, 6, 1024], 48, [1, 1], 1),
        ([2, 8, 9, 37], 70, [3, 3], 1),
        ([1, 6, 5, 12], 24, [3, 3], 3),
        // Panels of one register and a half, whole and not, alone and after others.
        ([1, 20, 31, 17], 24, [1, 1], 1),
        ([1, 11, 9, 18], 53, [3, 2], 1),
        ([1, 11, 9, 18], 42, [1, 2], 2),
        ([1, 9, 31, 30], 88, [1, 1], 1),
        // By frequencies, in several jobs.
        ([2, 30, 29, 27], 41, [3, 3], 1),
        ([1, 8, 8, 48], 32, [3, 3], 1),
        ([1, 9, 8, 32], 56, [3, 3], 1),
        ([1, 34, 29, 24], 24, [3, 3], 1),
        ([1, 15, 7, 40], 33, [3, 3], 1),
        // In small groups.
        ([2, 11, 13, 32], 32, [3, 3], 8),
        ([1, 9, 3, 64], 64, [3, 2], 8),
        ([1, 10, 8, 16], 16, [1, 4], 8),
        ([1, 9, 20, 32], 32, [5, 9], 8),
        // In groups as wide as a vector, and others whose tiles share what is known of them.
        ([1, 11, 13, 48], 48, [3, 3], 6),
        ([2, 7, 9, 64], 64, [3, 3], 4),
        ([1, 9, 30, 36], 63, [2, 3], 3),
        // Depthwise.
        ([2, 17, 19, 6], 6, [3, 3], 6),
        ([1, 13, 11, 40], 40, [3, 3], 40),
        ([1, 12, 33, 5], 5, [5, 5], 5),
        ([1, 12, 13, 16], 16, [5, 5], 16),
        ([1, 10, 11, 4], 4, [2, 4], 4),
        ([1, 16, 21, 35], 35, [7, 7], 35),
        ([2, 6, 3, 18], 18, [5, 5], 18),
        ([1, 8, 29, 33], 33, [7, 7], 33),
        ([1, 15, 34, 20], 20, [3, 3], 20),
        // The same with long, flat and even windows.
        ([2, 5, 22, 44], 44, [1, 11], 44),
        ([1, 19, 12, 55], 55, [9, 9], 55),
        ([1, 13, 9, 17], 17, [8, 1], 17),
        // A single channel, which has no vector to run along.
        ([1, 9, 300, 1], 1, [3, 64], 1),
        ([1, 1, 300, 1], 70, [1, 10], 1),
        // Few outputs, whose vectors run along the pixels; the last of a job's parts too.
        ([2, 9, 40, 5], 1, [3, 3], 1),
        ([1, 12, 90, 3], 2, [3, 7], 1),
        ([1, 7, 65, 9], 3, [5, 5], 1),
        ([1, 30, 33, 24], 4, [3, 2], 1),
        ([1, 8, 70, 6], 5, [1, 5], 1),
        ([1, 40, 200, 33], 7, [3, 3], 1),
        ([2, 1, 3000, 4], 3, [1, 39], 1),
        ([1, 21, 62, 12], 12, [7, 3], 1),
        ([1, 60, 62, 12], 12, [7, 1], 1),
        ([1, 14, 93, 6], 8, [2, 2], 1),
        ([1, 20, 150, 3], 10, [3, 3], 1),
        // More outputs than channels.
        ([1, 6, 7, 4], 8, [3, 3], 4),
        ([1, 14, 13, 24], 48, [7, 7], 24),
        ([2, 19, 6, 5], 15, [3, 3], 5),
    ];
    let filters = [
        Conv2dFilterOperandLayout::Oihw,
        Conv2dFilterOperandLayout::Hwio,
        Conv2dFilterOperandLayout::Ohwi,
        Conv2dFilterOperandLayout::Ihwo,
    ];
    for ([batches, height, width, channels], outputs, [filter_height, filter_width], groups) in sizes {
        for (i, options) in STRIDES_DILATIONS_PADDING.into_iter().enumerate() {
            let bias = i % 2 == 1;
            let (strides, dilations, padding) = options;
            let (Some(rows), Some(columns)) =
                (positions(0, height, filter_height, options), positions(1, width, filter_width, options))
            else {
                continue;
            };
            let mut op = conv(groups as u32, strides, dilations, padding, bias);
            op.filter_layout = filters[i % 4];
            let [o, i, h, w] = [outputs, channels / groups, filter_height, filter_width];
            let filter = match op.filter_layout {
                Conv2dFilterOperandLayout::Oihw => vec![o, i, h, w],
                Conv2dFilterOperandLayout::Hwio => vec![h, w, i, o],
                Conv2dFilterOperandLayout::Ohwi => vec![o, h, w, i],
                Conv2dFilterOperandLayout::Ihwo => vec![i, h, w, o],
            };
            let mut inputs = vec![(vec![batches, height, width, channels], false), (filter, true)];
            if bias {
                inputs.push((vec![outputs], true));
            }
            check(op, &inputs, &[batches, rows, columns, outputs]);
        }
    }
}

#[test]
fn convolutions_of_pictures() {
    let sizes =
        [([1, 20, 31, 3], 13, [3, 3]), ([2, 9, 8, 4], 24, [2, 3]), ([1, 17, 40, 2], 70, [7, 5]), ([3, 20, 33, 1], 16, [3, 1])];
    for ([batches, height, width, channels], outputs, [filter_height, filter_width]) in sizes {
        for options in STRIDES_DILATIONS_PADDING.into_iter().chain([([3, 5], [1, 3], [2, 1, 9, 4])]) {
            let (strides, dilations, padding) = options;
            let (Some(rows), Some(columns)) =
                (positions(0, height, filter_height, options), positions(1, width, filter_width, options))
            else {
                continue;
            };
            let output = [batches, rows, columns, outputs];
            let inputs = [
                (vec![batches, height, width, channels], false),
                (vec![outputs, channels, filter_height, filter_width], true),
                (vec![outputs], true),
                (output.to_vec(), false),
            ];
            let add = Op::from(Binary { kind: BinaryKind::Add, a: OperandId(4), b: OperandId(3) });
            let swish = Op::from(Activation { kind: ActivationKind::HardSwish, input: OperandId(4) });
            let op = |bias| conv(1, strides, dilations, padding, bias);
            check_planes(op(false), &[], &inputs, &output);
            check_planes(op(true), &[add, swish], &inputs, &output);
            if channels == 1 {
                check(op(true), &inputs, &output);
            }
        }
    }
}

#[test]
fn transposed_convolutions() {
    let layouts = [
        ConvTranspose2dFilterOperandLayout::Iohw,
        ConvTranspose2dFilterOperandLayout::Hwoi,
        ConvTranspose2dFilterOperandLayout::Ohwi,
    ];
    let sizes = [
        // input in nhwc, output channels of a group, filter, groups
        ([1, 9, 20, 6], 24, [2, 2], 1),
        ([2, 5, 31, 7], 9, [3, 4], 1),
        ([1, 70, 33, 5], 8, [4, 4], 1),
        ([1, 4, 17, 12], 8, [4, 3], 3),
        ([1, 1, 40, 3], 40, [1, 5], 1),
    ];
    for ([batches, height, width, channels], of_group, [filter_height, filter_width], groups) in sizes {
        for (i, (strides, dilations, padding)) in [
            ([1, 1], [1, 1], [0; 4]),
            ([2, 2], [1, 1], [0, 1, 1, 0]),
            ([2, 3], [1, 2], [1, 0, 2, 1]),
            ([1, 4], [2, 3], [0, 0, 1, 3]),
        ]
        .into_iter()
        .enumerate()
        {
            let output = |axis: usize, input: usize, window: usize| {
                ((input - 1) * strides[axis] as usize + (window - 1) * dilations[axis] as usize + 1)
                    .checked_sub((padding[2 * axis] + padding[2 * axis + 1]) as usize)
            };
            let (Some(rows), Some(columns)) = (output(0, height, filter_height), output(1, width, filter_width)) else {
                continue;
            };
            if rows < strides[0] as usize || columns < strides[1] as usize {
                continue;
            }
            let filter_layout = layouts[i % 3];
            let filter = match filter_layout {
                ConvTranspose2dFilterOperandLayout::Iohw => vec![channels, of_group, filter_height, filter_width],
                ConvTranspose2dFilterOperandLayout::Hwoi => vec![filter_height, filter_width, of_group, channels],
                ConvTranspose2dFilterOperandLayout::Ohwi => vec![of_group, filter_height, filter_width, channels],
            };
            let bias = i % 2 == 1;
            let op = ConvTranspose2d {
                padding,
                strides,
                dilations,
                groups: groups as u32,
                bias: bias.then_some(OperandId(2)),
                ..ConvTranspose2d::new(OperandId(0), OperandId(1), InputOperandLayout::Nhwc, filter_layout)
            };
            let outputs = of_group * groups;
            let mut inputs = vec![(vec![batches, height, width, channels], false), (filter, true)];
            if bias {
                inputs.push((vec![outputs], true));
            }
            // What is fused stands after the inputs.
            let running = OperandId(inputs.len() as u32);
            let relu = Op::from(Activation { kind: ActivationKind::Relu, input: running });
            check_fused(op.clone(), std::slice::from_ref(&relu), &inputs, &[batches, rows, columns, outputs]);
            check(op.clone(), &inputs, &[batches, rows, columns, outputs]);
            if groups == 1 {
                inputs[0].0 = vec![batches, channels, height, width];
                let op = ConvTranspose2d { input_layout: InputOperandLayout::Nchw, ..op };
                let output = [batches, outputs, rows, columns];
                check_fused(op.clone(), &[relu], &inputs, &output);
                check(op, &inputs, &output);
            }
        }
    }
}

#[test]
fn what_is_fused() {
    let relu = |running| Op::from(Activation { kind: ActivationKind::Relu, input: OperandId(running) });
    let clamp = |running| {
        Op::from(Clamp {
            input: OperandId(running),
            min_value: Some(Number::Double(-0.5)),
            max_value: Some(Number::Double(0.75)),
        })
    };
    let add = |a, b| Op::from(Binary { kind: BinaryKind::Add, a: OperandId(a), b: OperandId(b) });
    for (channels, filters) in
        [(6, [(6, 1), (3, 2), (1, 6)]), (22, [(22, 1), (11, 2), (1, 22)]), (40, [(40, 1), (20, 2), (1, 40)])]
    {
        // As wide as several vectors.
        let image = [2, 11, 39, channels];
        for (of_group, groups) in filters {
            let inputs = [
                (image.to_vec(), false),
                (vec![channels, of_group, 3, 3], true),
                (vec![channels], true),
                (vec![channels], true),
                (image.to_vec(), false),
            ];
            let op = || conv(groups, [1, 1], [1, 1], [1, 1, 1, 1], true);
            check_fused(op(), &[add(3, 5), add(5, 4), clamp(5)], &inputs, &image);
            check_fused(op(), &[relu(5), add(4, 5), clamp(5)], &inputs, &image);
            check_fused(op(), &[relu(5)], &inputs, &image);
            // What is done after the sums have left the registers.
            let input = OperandId(5);
            let leaky = || Op::from(LeakyRelu { input, alpha: 0.1 });
            let swish = || Op::from(Activation { kind: ActivationKind::HardSwish, input });
            let slope = || Op::from(Prelu { input, slope: OperandId(2) });
            let mul = |a, b| Op::from(Binary { kind: BinaryKind::Mul, a: OperandId(a), b: OperandId(b) });
            check_fused(op(), &[swish()], &inputs, &image);
            check_fused(op(), &[mul(3, 5), leaky(), add(4, 5)], &inputs, &image);
            // A constant number.
            let mut with_number = inputs.to_vec();
            with_number.push((vec![1, 1, 1, 1], true));
            check_fused(op(), &[add(6, 5), add(4, 6), clamp(6)], &with_number, &image);
            check_fused(op(), &[clamp(6), add(5, 6)], &with_number, &image);
            // A row and a number that the run brings.
            let mut brought = inputs.to_vec();
            brought.extend([(vec![1, 1, channels], false), (vec![1, 1], false)]);
            let running = |op: Op| {
                let mut op = op;
                op.visit_mut(&mut |id| id.0 += if id.0 == 5 { 2 } else { 0 });
                op
            };
            let gate = Op::from(Binary { kind: BinaryKind::Mul, a: OperandId(7), b: OperandId(5) });
            let shift = Op::from(Binary { kind: BinaryKind::Sub, a: OperandId(6), b: OperandId(7) });
            check_fused(op(), &[gate, running(leaky()), shift], &brought, &image);
            check_fused(op(), &[add(4, 5), relu(5), slope(), mul(5, 4)], &inputs, &image);
        }
    }
}

#[test]
fn what_is_fused_with_large_images() {
    let relu = Op::from(LeakyRelu { input: OperandId(2), alpha: 0.3 });
    // Panels that pass over several tiles, and jobs of some of the columns.
    for (image, outputs, window, groups) in
        [([1, 5, 6, 1024], 200, 1, 1), ([1, 9, 5, 512], 130, 3, 1), ([2, 19, 30, 36], 60, 3, 2), ([1, 40, 21, 3], 70, 3, 1)]
            .into_iter()
            // More runs than a table is made for.
            .chain([([1, 15, 30, 20], 9, 13, 1)])
            // Wide tiles: that pass over many pixels, over all panels, over some runs of padded ones.
            .chain([([1, 5, 7, 1000], 192, 1, 1), ([2, 9, 11, 40], 104, 1, 1), ([1, 9, 5, 100], 64, 3, 1)])
    {
        let [n, h, w, c]: [usize; 4] = image;
        let inputs = [(image.to_vec(), false), (vec![outputs, c / groups, window, window], true)];
        let pad = window as u32 / 2;
        check_fused(
            conv(groups as u32, [1, 1], [1, 1], [pad; 4], false),
            std::slice::from_ref(&relu),
            &inputs,
            &[n, h, w, outputs],
        );
    }
}

#[test]
fn pools() {
    for kind in [Pool2dKind::Max, Pool2dKind::Average, Pool2dKind::L2] {
        // The last one is large enough for its only window, if it has one, to be divided among threads.
        for (batches, height, width, channels) in [(2, 9, 11, 5), (1, 7, 7, 67), (1, 12, 10, 160), (1, 40, 41, 107)] {
            for options in STRIDES_DILATIONS_PADDING {
                let (strides, dilations, padding) = options;
                let (Some(rows), Some(columns)) = (positions(0, height, 3, options), positions(1, width, 2, options)) else {
                    continue;
                };
                let mut op = Pool2d {
                    kind,
                    input: OperandId(0),
                    window_dimensions: Some([3, 2]),
                    padding,
                    strides,
                    dilations,
                    layout: InputOperandLayout::Nhwc,
                    output_shape_rounding: RoundingType::Floor,
                    output_sizes: None,
                };
                let image = (vec![batches, height, width, channels], false);
                check(op.clone(), std::slice::from_ref(&image), &[batches, rows, columns, channels]);
                // Sums of the largest numbers are infinite where their means are not, and squares where norms are not.
                for scale in [3e38, 1e25] {
                    let output = [batches, rows, columns, channels];
                    check_with(op.clone(), &[], std::slice::from_ref(&image), &output, |numbers| {
                        numbers.iter_mut().for_each(|x| *x = x.abs() * scale);
                    });
                }
                op.window_dimensions = None;
                (op.padding, op.strides, op.dilations) = ([0; 4], [1; 2], [1; 2]);
                check(op, &[image], &[batches, 1, 1, channels]);
            }
        }
    }
}

#[test]
fn orders_of_dimensions() {
    for [n, c, h, w] in [[1, 3, 20, 31], [2, 40, 7, 9], [1, 64, 16, 8], [3, 2, 4, 4]] {
        let transpose = |permutation: [u32; 4]| Transpose { input: OperandId(0), permutation: Some(permutation.to_vec()) };
        check(transpose([0, 2, 3, 1]), &[(vec![n, c, h, w], false)], &[n, h, w, c]);
        check(transpose([0, 3, 1, 2]), &[(vec![n, h, w, c], false)], &[n, c, h, w]);
    }
    // Groups of channels that are shuffled, and matrices.
    let exchanges: [(&[usize], Option<&[u32]>); 9] = [
        (&[2, 9, 7, 4, 5], Some(&[0, 1, 2, 4, 3])),
        (&[1, 28, 28, 4, 34], Some(&[0, 1, 2, 4, 3])),
        (&[50, 3, 17], Some(&[0, 2, 1])),
        (&[50, 2, 33], Some(&[0, 2, 1])),
        (&[50, 17, 3], Some(&[0, 2, 1])),
        (&[1, 8, 1, 64], Some(&[3, 0, 2, 1])),
        (&[300, 70], Some(&[1, 0])),
        (&[70, 300], None),
        (&[1, 5, 6, 7, 8], Some(&[0, 3, 4, 1, 2])),
    ];
    for (shape, permutation) in exchanges {
        let op = Transpose { input: OperandId(0), permutation: permutation.map(<[u32]>::to_vec) };
        let made: Vec<usize> = (0..shape.len()).map(|i| shape[op.source(i, shape.len())]).collect();
        check(op, &[(shape.to_vec(), false)], &made);
    }
}

#[test]
fn infinite_weights_over_padding_make_no_numbers() {
    let sizes = [
        // Channels, outputs, window, groups: direct ones, small groups, depthwise ones by all their loops.
        (24, 32, [3, 3], 1),
        (3, 40, [5, 5], 1),
        (40, 40, [1, 5], 1),
        (32, 32, [3, 3], 8),
        (36, 63, [2, 3], 9),
        (20, 20, [3, 3], 20),
        (20, 20, [5, 5], 20),
        (20, 20, [7, 7], 20),
        (20, 20, [9, 2], 20),
        (10, 20, [5, 3], 10),
    ];
    for (channels, outputs, window, groups) in sizes {
        for (i, (strides, dilations, padding)) in STRIDES_DILATIONS_PADDING.into_iter().enumerate() {
            let options = (strides, dilations, padding);
            let [Some(rows), Some(columns)] = [(0, 13), (1, 26)].map(|(axis, size)| positions(axis, size, window[axis], options))
            else {
                continue;
            };
            let filter = vec![outputs, channels / groups, window[0], window[1]];
            let place = i * 5 % filter.iter().product::<usize>();
            let inputs = [(vec![1, 13, 26, channels], false), (filter, true), (vec![outputs], true)];
            let op = conv(groups as u32, strides, dilations, padding, true);
            let spoil = |filter: &mut [f32]| filter[place] = f32::INFINITY;
            check_with_filter(op, &inputs, &[1, rows, columns, outputs], spoil);
        }
    }
}

#[test]
fn what_is_not_a_number_stays_where_it_is() {
    // The filter of the second is large enough to be divided among threads.
    for (height, width, channels, outputs) in [(40, 40, 24, 32), (5, 8, 512, 150)] {
        // Each number and each place, and not all pairs, which take more than 20 minutes in QEMU, on ARM.
        let last = height * width * channels - 1;
        for (number, place) in [(f32::NAN, 0), (f32::INFINITY, 5000), (f32::NEG_INFINITY, last), (3e38, 0)] {
            let inputs =
                [(vec![1, height, width, channels], false), (vec![outputs, channels, 3, 3], true), (vec![outputs], true)];
            for [down, across] in [[1, 1], [2, 3]] {
                let op = conv(1, [1, 1], [down, across], [down, down, across, across], true);
                check_with(op, &[], &inputs, &[1, height, width, outputs], |input| input[place] = number);
            }
        }
    }
}
