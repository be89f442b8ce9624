'use strict';

// https://www.w3.org/TR/webnn/#api-ml

const native = require('./native.js');
const { createContext, createDeviceContext } = require('./context.js');
const { cacheMember, folderOfEnvironment } = require('./disk-cache.js');
const { Mismatch, conversionError } = require('./errors.js');
const { construct, expose, illegalUnless, receiverOf } = require('./interface.js');
const { withPeak } = require('./peak.js');
const { performanceOption } = require('./performance.js');
const { priorityMember, timeoutMember } = require('./scheduling.js');
const { begin, settle } = require('./settle.js');
const { trace } = require('./trace.js');
const { argument, boolean, dictionary, enforcedUnsignedLong, enforcedUnsignedLongLong, enumeration, usvString } = require('./webidl.js');
const { FP_MATH } = require('./fp-math.js');
const { isGPUDevice } = require('./webgpu/device.js');
const { openDevice } = require('./webgpu/timeline.js');

const POWER_PREFERENCES = ['default', 'high-performance', 'low-power'];
const DEVICE_TYPES = ['cpu', 'gpu', 'npu'];

// MLContextOptions, with the extensions deviceType (docs/extensions.md B2), label and numThreads (B3), fpMath (B7), memoryLimit (C18), priority and
// timeout (C20), maxQueue (C21), performance (C22), cache (C23), and idle (C24).
const contextOptions = dictionary([
  { name: 'powerPreference', convert: enumeration(POWER_PREFERENCES), absent: 0 },
  { name: 'accelerated', convert: boolean, absent: true },
  cacheMember,
  { name: 'deviceType', convert: enumeration(DEVICE_TYPES) },
  { name: 'fpMath', convert: enumeration(FP_MATH), absent: 0 },
  { name: 'idle', convert: idleTime },
  { name: 'label', convert: usvString, absent: '' },
  { name: 'maxQueue', convert: atLeastOne },
  { name: 'memoryLimit', convert: enforcedUnsignedLongLong, absent: -1 },
  { name: 'numThreads', convert: enforcedUnsignedLong, absent: 0 },
  { name: 'performance', convert: performanceOption, absent: '' },
  priorityMember,
  timeoutMember,
]);

/** Of contexts on a GPUDevice. */
const deviceOptions = dictionary([{ name: 'memoryLimit', convert: enforcedUnsignedLongLong, absent: -1 }]);

/** Milliseconds; -1 for no end. */
function idleTime(value) {
  if (value === false) return -1;
  if (value === true) throw new Mismatch(value, 'false or a whole number from 0 to 4294967295');
  return enforcedUnsignedLong(value);
}

/** A number of runs. */
function atLeastOne(value) {
  const number = enforcedUnsignedLong(value);
  if (number === 0) throw new Mismatch(value, 'a whole number from 1 to 4294967295');
  return number;
}

let brandOf;

class ML {
  #brand = true;

  constructor(key = undefined) {
    illegalUnless(key);
  }

  createContext(options = undefined, ofDevice = undefined) {
    try {
      self(this, 'createContext');
      // Overload resolution: a GPUDevice of any implementation is recognized by its interface (docs/extensions.md F1).
      if (isGPUDevice(options)) return onDevice(options, ofDevice);
      try {
        options = argument('options', options, contextOptions);
      } catch (error) {
        throw conversionError(error, 'createContext');
      }
      const folder = folderOfEnvironment();
      if (folder !== '') native.useCache(folder);
      const { powerPreference, accelerated, deviceType, label, numThreads, memoryLimit, performance, priority, timeout, maxQueue, cache, idle } = options;
      const fpMath = FP_MATH[options.fpMath];
      const entry = {
        operator: 'createContext',
        label,
        context: undefined,
        arrive: (created) => {
          if (idle !== undefined) native.keepIdleFor(created.context, idle);
          return createContext(created.context, created.accelerated, created.device, label, numThreads, fpMath, { priority, timeout, maxQueue, cache });
        },
      };
      const made = begin(entry, (request) => {
        const device = deviceType === undefined ? '' : DEVICE_TYPES[deviceType];
        native.createContext(request, device, POWER_PREFERENCES[powerPreference], accelerated, numThreads, label, fpMath, memoryLimit, performance);
      });
      return trace === undefined ? made : made.then(withPeak);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  static {
    brandOf = (value) => (typeof value === 'object' && value !== null && #brand in value ? value.#brand : undefined);
  }
}

expose(ML, brandOf);
const self = receiverOf('ML', brandOf);

/** "To create a context" given a GPUDevice. */
function onDevice(gpuDevice, options) {
  let memoryLimit;
  try {
    ({ memoryLimit } = argument('options', options, deviceOptions));
  } catch (error) {
    throw conversionError(error, 'createContext');
  }
  const entry = {
    operator: 'createContext',
    label: '',
    context: undefined,
    arrive: ({ handle, accelerated, timeline }) => createDeviceContext(handle, accelerated, timeline),
  };
  return begin(entry, (request) => {
    openDevice(gpuDevice, { memoryLimit }).then((opened) => settle(request, undefined, opened), (error) => settle(request, error));
  });
}

module.exports = { ML, ml: new ML(construct) };
