'use strict';

// Uses a GPUDevice of any implementation: through the WebGPU standard, and nothing else.

const { Mismatch } = require('../errors.js');
const { isObject } = require('../webidl.js');
const { TimeSlices } = require('./time-slices.js');

// The numbers of the standard: an implementation may not have put its objects on the global.
const MAP_READ = 0x1;
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const UNIFORM = 0x40;
const STORAGE = 0x80;

/** So many bytes are copied at a time: some tenths of a millisecond. */
const PIECE = 1 << 19;

/** The limits that decide how work is divided, in the order that the native side takes. */
const LIMITS = [
  'maxStorageBufferBindingSize',
  'maxBufferSize',
  'maxStorageBuffersPerShaderStage',
  'maxComputeWorkgroupsPerDimension',
  'maxComputeWorkgroupStorageSize',
];

/** Features that are used where a device has them. */
const FEATURES = ['shader-f16', 'subgroups'];

/** A GPUDevice is recognized by its interface, not by its class (docs/extensions.md F1). */
function isGPUDevice(value) {
  return isObject(value) && 'createCommandEncoder' in value && 'queue' in value && typeof value.createCommandEncoder === 'function';
}

/** Its class is known by its name. */
function isOfClass(value, name) {
  if (!isObject(value)) return false;
  return Object.prototype.toString.call(value) === `[object ${name}]` || value.constructor?.name === name;
}

/** It has nothing but a label. */
function isGPUCommandBuffer(value) {
  return isOfClass(value, 'GPUCommandBuffer');
}

function isGPUBuffer(value) {
  return isOfClass(value, 'GPUBuffer');
}

/** As an argument. */
function toGPUDevice(value) {
  if (isGPUDevice(value)) return value;
  throw new Mismatch(value, 'a GPUDevice');
}

/**
 * What `requestDevice()` is to be asked for so that graphs and tensors may be as large as the adapter allows.
 * @param {GPUAdapter} adapter
 * @returns {Record<string, number>} for `requiredLimits`
 */
function requiredLimits(adapter) {
  return Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]]));
}

/**
 * @param {GPUAdapter} adapter
 * @returns {string[]} for `requiredFeatures`
 */
function requiredFeatures(adapter) {
  return FEATURES.filter((name) => adapter.features.has(name));
}

const SOFTWARE = /swiftshader|llvmpipe|lavapipe|basic render|\bwarp\b/i;

/**
 * Whether its adapter computes on the CPU.
 * @param {GPUDevice} device
 */
function isSoftware({ adapterInfo }) {
  if (!adapterInfo) return false;
  const { isFallbackAdapter, vendor, architecture, device, description } = adapterInfo;
  return isFallbackAdapter === true || [vendor, architecture, device, description].some((text) => SOFTWARE.test(text ?? ''));
}

/** Kernels that combine in subgroups ask for their numbers, which is a part of the language that an implementation may lack. */
const SUBGROUPS = `enable subgroups;
requires subgroup_id;
@group(0) @binding(0) var<storage, read_write> sums: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32,
  @builtin(subgroup_invocation_id) lane: u32) {
  let sum = subgroupAdd(lane);
  if lane == 0u { sums[subgroup] = sum + subgroups; }
}`;

/**
 * What of the device's features can be used.
 * @param {GPUDevice} device
 */
async function usableFeatures(device) {
  const half = device.features.has('shader-f16');
  let subgroups = device.features.has('subgroups');
  if (subgroups) {
    const { complaint } = checked(device, () => device.createShaderModule({ label: 'webnn subgroups', code: SUBGROUPS }));
    subgroups = (await complaint) === undefined;
  }
  return { half, subgroups };
}

/**
 * Does something with a device. Its complaints are looked for with error scopes, which are closed before script goes on, so that they
 * never have those of anybody else.
 * @template T
 * @param {GPUDevice} device
 * @param {() => T} work
 * @returns {{result: T, complaint: Promise<import('../native').Cause | undefined>}} a promise that is never rejected
 */
function checked(device, work) {
  device.pushErrorScope('out-of-memory');
  device.pushErrorScope('validation');
  device.pushErrorScope('internal');
  // Where the device is lost they may be rejected; then the context is lost as well.
  const pop = () => device.popErrorScope().catch(() => null);
  const complaints = () => firstOf(pop(), pop(), pop());
  try {
    const result = work();
    return { result, complaint: complaints() };
  } catch (error) {
    complaints();
    throw error;
  }
}

/** @returns {Promise<import('../native').Cause | undefined>} */
async function firstOf(internal, validation, memory) {
  const used = await memory;
  const refused = (await internal) ?? (await validation);
  if (used) return { code: 'UnknownError', message: `the device's memory is used up: ${used.message}` };
  return refused ? { code: 'OperationError', message: `the device refuses: ${refused.message}` } : undefined;
}

/** Buffers are whole words. */
function bufferSize(byteLength) {
  return Math.max(4, Math.ceil(byteLength / 4) * 4);
}

/**
 * Writes bytes, as they are now, to a buffer of whole words.
 * @param {GPUDevice} device
 * @param {GPUBuffer} buffer
 * @param {Uint8Array} bytes
 * @param {number} [offset] a multiple of 4
 */
function writeBytes({ queue }, buffer, bytes, offset = 0) {
  const whole = bytes.byteLength - (bytes.byteLength % 4);
  if (whole > 0) queue.writeBuffer(buffer, offset, bytes, 0, whole);
  if (whole === bytes.byteLength) return;
  const word = new Uint8Array(4);
  word.set(bytes.subarray(whole));
  queue.writeBuffer(buffer, offset + whole, word);
}

/**
 * Copies a buffer after all earlier submissions, and maps the copy.
 * @param {GPUDevice} device
 * @param {GPUBuffer} buffer
 * @param {number} byteLength
 * @param {string} label
 * @returns {(into?: Uint8Array) => Promise<Uint8Array>} brings its bytes, where the device goes on
 */
function readBytes(device, buffer, byteLength, label) {
  const size = bufferSize(byteLength);
  const staging = device.createBuffer({ label, size, usage: MAP_READ | COPY_DST });
  const encoder = device.createCommandEncoder({ label });
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
  device.queue.submit([encoder.finish()]);
  const mapped = staging.mapAsync(1);
  // The caller's await rejects with it.
  mapped.catch(() => {});
  return async (into = new Uint8Array(byteLength)) => {
    try {
      await mapped;
      const bytes = new Uint8Array(staging.getMappedRange(), 0, byteLength);
      const slices = new TimeSlices();
      for (let at = 0; at < byteLength; at += PIECE) {
        // What is short is there at once.
        if (at > 0) await slices.next();
        into.set(bytes.subarray(at, at + PIECE), at);
      }
      return into;
    } finally {
      staging.destroy();
    }
  };
}

module.exports = {
  COPY_DST, COPY_SRC, LIMITS, PIECE, STORAGE, UNIFORM,
  bufferSize, checked, isGPUBuffer, isGPUCommandBuffer, isGPUDevice, isSoftware, readBytes, requiredFeatures, requiredLimits, toGPUDevice, usableFeatures, writeBytes,
};
