'use strict';

// Tensors that stay on the device. What onnxruntime-common calls an `mlTensor` or a `gpuBuffer` is an MLTensor here.

const { arrayOver } = require('../onnx/arrays.js');
const { dataTypes } = require('../descriptor.js');
const { toTensor } = require('../tensor.js');
const { Tensor } = require('./common.js');
const { ELEMENTS, heldBy } = require('./elements.js');

/** Types that onnxruntime-common lets tensors of a location have. */
const TYPES = {
  'gpu-buffer': ['float32', 'float16', 'int32', 'int64', 'uint32', 'uint8', 'bool', 'uint4', 'int4'],
  'ml-tensor': ['float32', 'float16', 'int32', 'int64', 'uint32', 'uint64', 'int8', 'uint8', 'bool', 'uint4', 'int4'],
};

/** Whether outputs of a type can be kept in a location. */
const canBeKept = (location, type) => TYPES[location].includes(type) && ELEMENTS[type].into === undefined;

/** The tensor of onnxruntime-common over an MLTensor, which then is that tensor's. */
function tensorOver(location, type, dims, mlTensor, context) {
  const options = {
    dataType: type,
    dims,
    download: async () => arrayOver(heldBy(type), await context.readTensor(mlTensor)),
    dispose: () => mlTensor.destroy(),
  };
  return location === 'gpu-buffer' ? Tensor.fromGpuBuffer(mlTensor, options) : Tensor.fromMLTensor(mlTensor, options);
}

/** Whether an MLTensor can be bound as it is. */
function fits({ type, dims, mlTensor }, contextState) {
  const { context, dataType, shape } = toTensor(mlTensor);
  return context === contextState && dataTypes[dataType] === heldBy(type) && `${shape}` === `${dims}`;
}

/** The elements of an MLTensor of another context, or with other dimensions. */
async function download({ type, dims, mlTensor }) {
  const { context, dataType, shape } = toTensor(mlTensor);
  const count = (sizes) => sizes.reduce((product, size) => product * size, 1);
  if (dataTypes[dataType] !== heldBy(type) || count(shape) !== count(dims)) {
    throw new Error(`Tensor of ${type}[${dims}] has an MLTensor of ${dataTypes[dataType]}[${shape}]`);
  }
  return arrayOver(heldBy(type), await context.object.readTensor(mlTensor));
}

module.exports = { canBeKept, download, fits, tensorOver };
