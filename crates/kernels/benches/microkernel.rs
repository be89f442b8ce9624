//! Measures one microkernel, chosen by its name: `cargo bench -p webnn-kernels -- gemm`. Without a name it lists them.
//!
//! All operands are in the first caches. Each round is long enough for the clock; the fastest of them counts, since what else a
//! machine does only makes rounds longer. What a kernel gives in a network is another question: see `benches/README.md`.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;
use webnn_kernels::block_quantized::{self, Coding, Floats, Instructions, Weights, float32, int8 as rounded};
use webnn_kernels::caches::Caches;
use webnn_kernels::conv::microkernels::{self as conv_tiles, Tiles};
use webnn_kernels::epilogue::clamp::Clamps;
use webnn_kernels::epilogue::post_ops::{PostOp, PostOps};
use webnn_kernels::expert_matmul;
use webnn_kernels::functions::Function;
use webnn_kernels::functions::formulas::Formula;
use webnn_kernels::gemm::gemv;
use webnn_kernels::gemm::microkernels::{self as gemm_tiles, Ahead, LeftRows, Microkernels, Plus, available};
use webnn_kernels::gemm::row_times_panels::{self, MOST_PANELS, Source};
use webnn_kernels::int8;
use webnn_kernels::isa::Isa;
use webnn_kernels::linear_attention::{self, Rows};
use webnn_kernels::output::SharedOutput;
use webnn_kernels::pauses::Pauses;
use webnn_kernels::softmax::rows::SoftmaxRows;

/// Depth of a product: panels of so many rows stay in the first-level cache.
const DEPTH: usize = 128;
const ROUNDS: usize = 30;
/// Of a round, in nanoseconds.
const LONG: f64 = 2e6;

/// What is counted for each call: operations of arithmetic, elements where a formula is not a number of these, or bytes of memory.
enum Work {
    Operations(usize),
    Elements(usize),
    Bytes(usize),
}

/// A microkernel with its operands: a name, what a call does, and the call.
type Microkernel = (String, Work, Box<dyn FnMut()>);

fn main() {
    // Cargo adds flags of its own.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let all = microkernels();
    let Some(name) = name else {
        println!("Which one? `cargo bench -p webnn-kernels -- NAME`, where a name stands for all that begin with it:");
        all.iter().for_each(|(name, ..)| println!("  {name}"));
        return;
    };
    let chosen: Vec<Microkernel> = all.into_iter().filter(|(known, ..)| known.starts_with(&name)).collect();
    if chosen.is_empty() {
        eprintln!("No microkernel's name begins with {name}; without a name they are listed.");
        std::process::exit(1);
    }
    for (name, work, mut call) in chosen {
        let nanoseconds = fastest(&mut *call);
        let rate = match work {
            Work::Operations(count) => format!("{:8.1} GFLOP/s", count as f64 / nanoseconds),
            Work::Elements(count) => format!("{:8.1} elements/ns", count as f64 / nanoseconds),
            Work::Bytes(count) => format!("{:8.1} GB/s", count as f64 / nanoseconds),
        };
        println!("{name:32} {nanoseconds:10.1} ns {rate}");
    }
}

/// Nanoseconds of a call.
fn fastest(call: &mut dyn FnMut()) -> f64 {
    let mut round = |calls: usize| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_nanos() as f64
    };
    let mut calls = 1;
    while round(calls) < LONG {
        calls *= 2;
    }
    (0..ROUNDS).map(|_| round(calls) / calls as f64).fold(f64::INFINITY, f64::min)
}

fn microkernels() -> Vec<Microkernel> {
    let mut all = Vec::new();
    all.extend(available().map(gemm));
    for isa in Isa::available() {
        all.push(gemv(isa.gemm));
        all.extend(decode(isa));
        let tiles = Tiles::of(isa);
        all.push(conv(&format!("conv.indirect.{}", isa.name), tiles));
        let wide = Tiles::for_product(isa, usize::MAX, [DEPTH, 64], true, Caches::LARGE);
        if !std::ptr::eq(wide, tiles) {
            all.push(conv(&format!("conv.indirect.{}, wide", isa.name), wide));
        }
        all.extend(int8::microkernels::Tiles::all_of(isa).into_iter().filter_map(|tiles| product_of_bytes(isa, tiles)));
        for (name, function) in [("exp", Function::Exp), ("tanh", Function::Tanh), ("gelu", Function::Gelu)] {
            all.push(function_of_numbers(isa, name, function));
        }
        all.push(softmax(isa));
        all.push(linear_attention(isa));
        all.extend([4, 8].map(|bits| expert_matmul(isa, bits)));
        all.extend(of_few_bits(isa));
        all.extend(of_memory(isa));
    }
    all
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 / 101.0 - 0.5).collect()
}

fn gemm(gemm: &'static Microkernels) -> Microkernel {
    let (rows, columns) = (gemm.rows, gemm.columns);
    let (a, b, mut c) = (numbers(rows * DEPTH), numbers(DEPTH * columns), vec![0.0; rows * columns]);
    let call = move || {
        let task = gemm_tiles::Task {
            rows,
            columns,
            depth: DEPTH,
            left: LeftRows { elements: &a, row: DEPTH, step: 1 },
            panel: &b,
            output: c.as_mut_ptr(),
            stride: columns,
            plus: Plus::Nothing,
            ahead: Ahead { start: b.as_ptr(), step: 0 },
        };
        // SAFETY: `c` has all rows and columns of a tile, and is ours.
        unsafe { gemm.tile(task) };
        black_box(&mut c);
    };
    (format!("gemm.{}", gemm.name), Work::Operations(2 * rows * columns * DEPTH), Box::new(call))
}

fn gemv(gemm: &'static Microkernels) -> Microkernel {
    let (row, panels) = (numbers(DEPTH), numbers(MOST_PANELS * DEPTH * gemm.columns));
    let mut output = vec![0.0; MOST_PANELS * gemm.columns];
    let call = move || {
        let panels: Vec<&[f32]> = panels.chunks_exact(DEPTH * gemm.columns).collect();
        let source = Source::Cache { backwards: false };
        row_times_panels::multiply(gemm, &row, &panels, &mut output, Plus::Nothing, source);
        black_box(&mut output);
    };
    (format!("gemv.{}", gemm.name), Work::Operations(2 * MOST_PANELS * gemm.columns * DEPTH), Box::new(call))
}

/// What a query of a decoder reads of keys and of values that a cache has.
fn decode(isa: &'static Isa) -> [Microkernel; 2] {
    const SIZE: usize = 64;
    const KEYS: usize = 512;
    let (query, keys, mut scores) = (numbers(SIZE), numbers(KEYS * SIZE), vec![0.0; KEYS]);
    let (weights, values, mut result) = (numbers(KEYS), numbers(KEYS * SIZE), vec![0.0; SIZE]);
    let dot_products = move || {
        gemv::dot_products(isa, &query, SIZE, (&keys, SIZE), &mut scores, Pauses::NONE);
        black_box(&mut scores);
    };
    let weighted_sums = move || {
        gemv::weighted_sums(isa, &weights, KEYS, (&values, SIZE), &mut result, Pauses::NONE);
        black_box(&mut result);
    };
    let work = || Work::Operations(2 * KEYS * SIZE);
    [
        (format!("gemv.dot_products.{}", isa.name), work(), Box::new(dot_products)),
        (format!("gemv.weighted_sums.{}", isa.name), work(), Box::new(weighted_sums)),
    ]
}

fn conv(name: &str, tiles: &'static Tiles) -> Microkernel {
    let (rows, columns) = (tiles.rows, tiles.columns);
    let (image, weights, mut output) = (numbers(rows * DEPTH), numbers(DEPTH * columns), vec![0.0; rows * columns]);
    let call = move || {
        let starts: Vec<*const f32> = image.chunks_exact(DEPTH).map(<[f32]>::as_ptr).collect();
        let task = conv_tiles::Task {
            input: conv_tiles::Input { runs: 1, length: DEPTH, starts: starts.as_ptr(), step: 0, dilation: 1 },
            tiles: 1,
            ahead: conv_tiles::Ahead { start: weights.as_ptr(), step: 0, of_tile: 0 },
            weights: conv_tiles::Weights {
                panel: weights.as_ptr(),
                bias: std::ptr::null(),
                columns,
                panels: 1,
                step: DEPTH * columns,
            },
            output: conv_tiles::Output { start: output.as_mut_ptr(), stride: columns, is_bits: false, is_far: false },
            added: conv_tiles::Added::NOTHING,
            clamps: Clamps::default(),
        };
        // SAFETY: DEPTH numbers lie at each start, and as many rows of columns of weights; the output has all rows and columns.
        unsafe { tiles.run(rows, &task) };
        black_box(&mut output);
    };
    (name.to_owned(), Work::Operations(2 * rows * columns * DEPTH), Box::new(call))
}

/// None for tiles that want their rows gathered: that is measured with the network only.
fn product_of_bytes(isa: &Isa, tiles: &'static int8::microkernels::Tiles) -> Option<Microkernel> {
    let (rows, columns) = (tiles.rows, 2 * tiles.lanes);
    if tiles.gathered(DEPTH) > 0 {
        return None;
    }
    let bytes = vec![3u8; rows * DEPTH];
    let weights = vec![1u8; DEPTH * columns * tiles.weight];
    let (start, mut output) = (vec![0i32; columns], vec![0u32; rows * columns]);
    let call = move || {
        let starts: Vec<*const u8> = bytes.chunks_exact(DEPTH).map(<[u8]>::as_ptr).collect();
        let epilogue = int8::microkernels::Epilogue {
            start: start.as_ptr(),
            zeros: std::ptr::null(),
            row_sums: std::ptr::null(),
            factors: std::ptr::null(),
        };
        let task = int8::microkernels::Task {
            runs: 1,
            length: DEPTH,
            rows,
            starts: starts.as_ptr(),
            weights: weights.as_ptr(),
            epilogue,
            output: output.as_mut_ptr(),
            stride: columns,
        };
        // SAFETY: DEPTH bytes lie at each start, as many weights of each column; there is a start for each column, and the output has
        // all rows and columns. These tiles need nothing of the thread.
        unsafe { tiles.run(2, &task) };
        black_box(&mut output);
    };
    Some((format!("int8.{}.{}", isa.name, tiles.name), Work::Operations(2 * rows * columns * DEPTH), Box::new(call)))
}

fn function_of_numbers(isa: &'static Isa, name: &str, function: Function) -> Microkernel {
    const COUNT: usize = 2048;
    let (input, mut output) = (numbers(COUNT), vec![0.0; COUNT]);
    let post_ops = [PostOp::Formula(Formula::Of(function))];
    let call = move || {
        output.copy_from_slice(&input);
        PostOps::new(&post_ops).apply(isa, 0..COUNT, 0, &[], &mut output);
        black_box(&mut output);
    };
    (format!("function.{name}.{}", isa.name), Work::Elements(COUNT), Box::new(call))
}

fn softmax(isa: &'static Isa) -> Microkernel {
    const LENGTH: usize = 197;
    const COUNT: usize = 12;
    let (input, mut output) = (numbers(COUNT * LENGTH), vec![0.0; COUNT * LENGTH]);
    let call = move || {
        SoftmaxRows { input: &input, output: &mut output, length: LENGTH, pauses: Pauses::NONE }.compute(isa);
        black_box(&mut output);
    };
    (format!("softmax.rows.{}", isa.name), Work::Elements(COUNT * LENGTH), Box::new(call))
}

/// A head's state of 128 x 64 columns, which tokens change by the gated delta rule.
fn linear_attention(isa: &'static Isa) -> Microkernel {
    const KEYS: usize = 128;
    const WIDTH: usize = 64;
    const TOKENS: usize = 16;
    let (key, value) = (numbers(TOKENS * KEYS).iter().map(|x| x / 8.0).collect::<Vec<f32>>(), numbers(TOKENS * WIDTH));
    let (factors, rate) = (vec![0.9; TOKENS], vec![0.5; TOKENS]);
    let (mut state, mut output) = (numbers(KEYS * WIDTH), vec![0.0; TOKENS * WIDTH]);
    let call = move || {
        let output = SharedOutput::new(&mut output);
        let queries = [linear_attention::Query { rows: Rows::new(&key, KEYS, 0), first: 0 }];
        let columns = linear_attention::Columns {
            state: &mut state,
            width: WIDTH,
            keys: KEYS,
            tokens: 0..TOKENS,
            key: Rows::new(&key, KEYS, 0),
            value: Rows::new(&value, WIDTH, 0),
            queries: &queries,
            factors: Some((Rows::new(&factors, 1, 0), 1)),
            rate: Some(Rows::new(&rate, 1, 0)),
            scale: 0.1,
            output: &output,
            distance: WIDTH,
        };
        columns.compute(isa);
        black_box(&mut state);
    };
    // Each element is scaled, compared with the key, changed, and multiplied with the query.
    (format!("linear_attention.{}", isa.name), Work::Operations(7 * KEYS * WIDTH * TOKENS), Box::new(call))
}

/// A row times 2048 x 2048 weights of a matrix that was chosen, in blocks of 32.
fn expert_matmul(isa: &'static Isa, bits: u32) -> Microkernel {
    const SIZE: usize = 2048;
    let bytes = SIZE * bits as usize / 8;
    let weights: Vec<u8> = (0..SIZE * bytes).map(|i| (i * 37 % 251) as u8).collect();
    let (a, scales) = (numbers(SIZE), numbers(SIZE * SIZE / 32));
    let (mut scratch, mut output) = (vec![0.0; SIZE], vec![0.0; SIZE]);
    let call = move || {
        let columns = expert_matmul::Columns {
            columns: 0..SIZE,
            depth: SIZE,
            bits,
            block: 32,
            weights: &weights,
            bytes,
            scales: &scales,
            zero_points: None,
            a: &a,
            rows: &[0],
            scratch: &mut scratch,
            output: &SharedOutput::new(&mut output),
            distance: SIZE,
            pauses: Pauses::NONE,
        };
        columns.compute(isa);
        black_box(&mut output);
    };
    (format!("expert_matmul.{}, {bits} bits", isa.name), Work::Operations(2 * SIZE * SIZE), Box::new(call))
}

/// Multiplies into an output.
type ProductCall = Box<dyn FnMut(&mut [f32])>;

/// Rows times 4096 x 4096 weights of 4 and 8 bits in blocks of 32, which come from memory, or from a cache that is larger.
fn of_few_bits(isa: &'static Isa) -> Vec<Microkernel> {
    const SIZE: usize = 4096;
    let mut all: Vec<Microkernel> = Vec::new();
    for (bits, rows) in [(2, 1), (4, 1), (8, 1), (4, 2), (4, 4), (4, 8), (8, 8)] {
        let weights: Vec<u8> = (0..SIZE * SIZE * bits / 8).map(|i| (i * 37 % 251) as u8).collect();
        let scales: Vec<u8> = numbers(SIZE * SIZE / 32).iter().flat_map(|x| x.to_le_bytes()).collect();
        let source = block_quantized::Source {
            bits,
            columns: SIZE,
            depth: SIZE,
            block: 32,
            coding: Coding::Offset,
            by_depth: false,
            high_first: false,
            code_book: None,
            weights: &weights,
            scales: Floats::Float32(&scales),
            zeros: None,
        };
        let left = numbers(rows * SIZE);
        let work = || Work::Operations(2 * rows * SIZE * SIZE);
        let mut add = |name: String, mut call: ProductCall| {
            let mut output = vec![0.0; rows * SIZE];
            all.push((name, work(), Box::new(move || call(black_box(&mut output)))));
        };
        for is_int8 in [false, true] {
            let format = source.format(isa.lanes(), is_int8);
            let mut packed = vec![0; format.bytes()];
            source.pack(&format, &mut packed, Pauses::NONE);
            if is_int8 {
                let mut of_bytes = vec![0.0; rows * rounded::row(&format)];
                for (from, to) in left.chunks_exact(SIZE).zip(of_bytes.chunks_exact_mut(rounded::row(&format))) {
                    rounded::Round { format: &format, from, to, pauses: Pauses::NONE }.compute(isa);
                }
                for instructions in Instructions::all_of(isa) {
                    let (packed, of_bytes) = (packed.clone(), of_bytes.clone());
                    let call = move |output: &mut [f32]| {
                        let weights = Weights::new(&format, None, &packed);
                        rounded::multiply(
                            isa,
                            instructions,
                            &weights,
                            rounded::Rows { rows: &of_bytes },
                            0..format.panels(),
                            output,
                            Pauses::NONE,
                        );
                    };
                    add(format!("block_quantized.int8.{bits}bits.{rows}.{instructions:?}"), Box::new(call));
                }
                continue;
            }
            let (mut padded, mut sums) = (vec![0.0; rows * SIZE], vec![0.0; rows * format.blocks()]);
            float32::Pad { format: &format, from: &left, numbers: &mut padded, sums: &mut sums, pauses: Pauses::NONE }
                .compute(isa);
            let call = move |output: &mut [f32]| {
                let weights = Weights::new(&format, None, &packed);
                let rows = float32::Rows { numbers: &padded, sums: &sums };
                float32::multiply(isa, &weights, rows, 0..format.panels(), output, Pauses::NONE);
            };
            add(format!("block_quantized.float32.{bits}bits.{rows}.{}", isa.name), Box::new(call));
        }
    }
    all
}

/// A row times weights that no cache holds, and what reading as many bytes takes. Run it with
/// `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, so that weights lie in pages of 2 MiB, as they do in a graph. Depths are those of decoders
/// from 135M on.
fn of_memory(isa: &'static Isa) -> Vec<Microkernel> {
    let mut all: Vec<Microkernel> = Vec::new();
    for (bits, is_int8, depth) in
        [(4, false, 4096), (4, true, 4096), (4, true, 576), (8, true, 4096), (8, false, 4096), (16, false, 4096)]
    {
        // About 128 MB.
        let columns = ((128 << 20) * 8 / bits / depth / 64) * 64;
        let block = if bits == 16 { depth } else { 32 };
        let weights = move || -> Vec<u8> {
            (0..columns * depth * bits / 8).map(|i| if bits == 16 && i % 2 == 1 { 0x3c } else { (i * 37 % 251) as u8 }).collect()
        };
        let floats = move || -> Vec<u8> { (0..columns * depth / block).flat_map(|i| [(i % 7) as u8, 0x2c]).collect() };
        let coding = if bits == 16 { Coding::Float16 } else { Coding::Offset };
        let source = block_quantized::Source {
            bits,
            columns,
            depth,
            block,
            coding,
            by_depth: false,
            high_first: false,
            code_book: None,
            weights: &[],
            scales: Floats::Float16(&[]),
            zeros: None,
        };
        let format = source.format(isa.lanes(), is_int8);
        let bytes = format.bytes();
        let row = numbers(depth);
        let mut packed: Vec<u8> = Vec::new();
        let mut output = vec![0.0; format.panels() * format.lanes];
        let kind = if is_int8 { "int8" } else { "float32" };
        let call = move || {
            if packed.is_empty() {
                packed = vec![0; bytes];
                let (weights, floats) = (weights(), floats());
                let scales = Floats::Float16(&floats);
                block_quantized::Source { weights: &weights, scales, ..source }.pack(&format, &mut packed, Pauses::NONE);
            }
            let packed = Weights::new(&format, None, &packed);
            // As many panels as a job has, so that what a row is made into is made once.
            if is_int8 {
                let mut rounded = vec![0.0; rounded::row(&format)];
                rounded::Round { format: &format, from: &row, to: &mut rounded, pauses: Pauses::NONE }.compute(isa);
                let rows = rounded::Rows { rows: &rounded };
                rounded::multiply(
                    isa,
                    Instructions::all_of(isa)[0],
                    &packed,
                    rows,
                    0..format.panels(),
                    &mut output,
                    Pauses::NONE,
                );
            } else {
                let (mut numbers, mut sums) = (vec![0.0; format.padded_depth()], vec![0.0; format.blocks()]);
                float32::Pad { format: &format, from: &row, numbers: &mut numbers, sums: &mut sums, pauses: Pauses::NONE }
                    .compute(isa);
                let rows = float32::Rows { numbers: &numbers, sums: &sums };
                float32::multiply(isa, &packed, rows, 0..format.panels(), &mut output, Pauses::NONE);
            }
            black_box(&mut output);
        };
        all.push((format!("memory.{kind}.{bits}bits.{depth}.{}", isa.name), Work::Bytes(bytes), Box::new(call)));
    }
    let mut read: Vec<u64> = Vec::new();
    let call = move || {
        if read.is_empty() {
            read = vec![1; 128 << 17];
        }
        let mut sums = [0u64; 32];
        for numbers in read.as_chunks::<32>().0 {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = sum.wrapping_add(*number));
        }
        black_box(sums);
    };
    all.push((format!("memory.read.{}", isa.name), Work::Bytes(128 << 20), Box::new(call)));
    all
}
