// The shaders of the sheet: cells with a handwritten digit each, and beside it what the network takes it for.

export const CELL = { width: 128, height: 96 };
/** A digit's place in its cell, and how many pixels of the sheet one of its 8x8 has. */
const DIGIT = { x: 8, y: 8, scale: 10 };

const common = (columns) => `
const CELL = vec2<u32>(${CELL.width}u, ${CELL.height}u);
const ORIGIN = vec2<u32>(${DIGIT.x}u, ${DIGIT.y}u);
const SCALE = ${DIGIT.scale}u;
const WIDTH = ${columns * CELL.width}u;
const COLUMNS = ${columns}u;
const PAPER = vec3<f32>(0.97, 0.95, 0.89);
const INK = vec3<f32>(0.09, 0.13, 0.35);
`;

/** Draws what was written: 8x8 images, 0 to 1, smoothly enlarged, in ink on paper with a grain. */
export const draw = (columns) => `${common(columns)}
@group(0) @binding(0) var<storage, read> digits: array<f32>;
@group(0) @binding(1) var<storage, read_write> sheet: array<u32>;

fn ink(digit: u32, at: vec2<i32>) -> f32 {
  if any(at < vec2<i32>(0)) || any(at > vec2<i32>(7)) { return 0.0; }
  return digits[digit * 64u + u32(at.y) * 8u + u32(at.x)];
}

fn grain(at: vec2<u32>) -> f32 {
  var h = at.x * 374761393u + at.y * 668265263u;
  h = (h ^ (h >> 13u)) * 1274126177u;
  return f32((h ^ (h >> 16u)) & 255u) / 255.0 - 0.5;
}

@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  let cell = at.xy / CELL;
  let place = (vec2<f32>(at.xy % CELL) - vec2<f32>(ORIGIN) + 0.5) / f32(SCALE) - 0.5;
  let corner = floor(place);
  let part = place - corner;
  let digit = cell.y * COLUMNS + cell.x;
  let i = vec2<i32>(corner);
  let above = mix(ink(digit, i), ink(digit, i + vec2<i32>(1, 0)), part.x);
  let below = mix(ink(digit, i + vec2<i32>(0, 1)), ink(digit, i + vec2<i32>(1, 1)), part.x);
  let colour = mix(PAPER, INK, mix(above, below, part.y)) + 0.02 * grain(at.xy);
  sheet[at.y * WIDTH + at.x] = pack4x8unorm(vec4<f32>(colour, 1.0));
}`;

/** Reads the sheet as a scanner would: how dark each of 8x8 blocks of a cell is becomes the network's input. */
export const scan = (columns) => `${common(columns)}
@group(0) @binding(0) var<storage, read> sheet: array<u32>;
@group(0) @binding(1) var<storage, read_write> images: array<f32>;

@compute @workgroup_size(8, 8) fn main(@builtin(workgroup_id) cell: vec3<u32>, @builtin(local_invocation_id) block: vec3<u32>) {
  let first = cell.xy * CELL + ORIGIN + block.xy * SCALE;
  var sum = 0.0;
  for (var y = 0u; y < SCALE; y += 1u) {
    for (var x = 0u; x < SCALE; x += 1u) {
      let colour = unpack4x8unorm(sheet[(first.y + y) * WIDTH + first.x + x]);
      sum += (PAPER.r - colour.r) / (PAPER.r - INK.r);
    }
  }
  images[(cell.y * COLUMNS + cell.x) * 64u + block.y * 8u + block.x] = clamp(sum / f32(SCALE * SCALE), 0.0, 1.0);
}`;

/** Draws the likeliest digit beside each, in seven segments, and a bar as long as it is likely: green where the network is sure. */
export const mark = (columns) => `${common(columns)}
@group(0) @binding(0) var<storage, read> probabilities: array<f32>;
@group(0) @binding(1) var<storage, read_write> sheet: array<u32>;

// Bits: top, upper left, upper right, middle, lower left, lower right, bottom.
const SEGMENTS = array<u32, 10>(119u, 36u, 93u, 109u, 46u, 107u, 123u, 37u, 127u, 111u);

fn segments(at: vec2<i32>, on: u32) -> bool {
  let across = at.x >= 3 && at.x < 19;
  let upper = at.y >= 3 && at.y < 19;
  let lower = at.y >= 21 && at.y < 37;
  let left = at.x >= 0 && at.x < 4;
  let right = at.x >= 18 && at.x < 22;
  var lit = false;
  lit = lit || ((on & 1u) != 0u && across && at.y >= 0 && at.y < 4);
  lit = lit || ((on & 2u) != 0u && upper && left);
  lit = lit || ((on & 4u) != 0u && upper && right);
  lit = lit || ((on & 8u) != 0u && across && at.y >= 18 && at.y < 22);
  lit = lit || ((on & 16u) != 0u && lower && left);
  lit = lit || ((on & 32u) != 0u && lower && right);
  lit = lit || ((on & 64u) != 0u && across && at.y >= 36 && at.y < 40);
  return lit;
}

@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  let cell = at.xy / CELL;
  let first = (cell.y * COLUMNS + cell.x) * 10u;
  var best = 0u;
  for (var digit = 1u; digit < 10u; digit += 1u) {
    if probabilities[first + digit] > probabilities[first + best] { best = digit; }
  }
  let sure = probabilities[first + best];
  var on = SEGMENTS;
  let place = vec2<i32>(at.xy % CELL) - vec2<i32>(98, 16);
  let bar = place.y >= 52 && place.y < 58 && place.x >= 0 && place.x < i32(22.0 * sure + 0.5);
  if !segments(place, on[best]) && !bar { return; }
  let colour = mix(vec3<f32>(0.85, 0.30, 0.08), vec3<f32>(0.10, 0.52, 0.25), smoothstep(0.6, 0.95, sure));
  sheet[at.y * WIDTH + at.x] = pack4x8unorm(vec4<f32>(colour, 1.0));
}`;
