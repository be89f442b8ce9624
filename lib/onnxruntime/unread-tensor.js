'use strict';

// Tensors of onnxruntime-common whose elements nobody has read. In the location 'cpu', `data` is copied at the first read; on a device, the MLTensor
// is made then.

const { arrayFor, ELEMENTS, heldBy } = require('./elements.js');
const { arrayOver, elementCount } = require('../onnx/arrays.js');
const { forgetUnread, unreadOf, lookLater } = require('../onnx/unread.js');
const { Tensor } = require('./common.js');
const { destroy, tensorOf } = require('./locations.js');

/** The members of a tensor that have what it is made of, by its location. */
const MEMBERS = { cpu: 'cpuData', 'ml-tensor': 'mlTensorData', 'gpu-buffer': 'gpuBufferData' };

/** Whether this version of the package has what a tensor is made of in these properties. */
const isKnown = (() => {
  const tensor = new Tensor('float32', new Float32Array(1), [1]);
  const has = (of, names) => names.every((name) => Object.getOwnPropertyDescriptor(of, name)?.writable);
  const onDevice = [
    ['ml-tensor', Tensor.fromMLTensor({}, { dataType: 'float32', dims: [1] })],
    ['gpu-buffer', Tensor.fromGpuBuffer({}, { dataType: 'float32', dims: [1] })],
  ];
  return tensor.location === 'cpu' && has(tensor, ['cpuData', 'dims', 'size']) && onDevice.every(([location, of]) => has(of, [MEMBERS[location]]));
})();

/** Whether a tensor of a type can be one whose elements are as the native side has them. */
const canKeep = (type) => isKnown && ELEMENTS[type].from === undefined;

/** @param {import('../onnx/unread.js').UnreadElements} unread which is the tensor's from now on */
function tensorOfUnread(type, unread) {
  const tensor = new Tensor(type, arrayFor(heldBy(type), 0), [0]);
  tensor.dims = [...unread.shape];
  tensor.size = elementCount(unread.shape);
  lookLater(tensor, 'cpuData', unread);
  return tensor;
}

/**
 * Replaces the elements of a tensor of the CPU that were not read.
 * @param {object} tensor
 * @param {import('../onnx/unread.js').UnreadElements} unread which is the tensor's from now on
 */
function refill(tensor, unread) {
  const before = unreadOf(tensor, tensor.dims);
  lookLater(tensor, 'cpuData', unread);
  before?.drop();
  return tensor;
}

/**
 * The same in a location of a device, whose memory is the CPU's.
 * @param {'ml-tensor' | 'gpu-buffer'} location
 * @param {string} type
 * @param {import('../onnx/unread.js').UnreadElements} unread which is the tensor's from now on
 * @param {object} contextState
 */
function locatedTensorOfUnread(location, type, unread, contextState) {
  const member = MEMBERS[location];
  let mlTensor;
  const make = () => (mlTensor = tensorOf(contextState, type, unread.shape, unread.read()));
  const options = {
    dataType: type,
    dims: [...unread.shape],
    download: async () => {
      const array = mlTensor === undefined ? unread.read() : arrayOver(heldBy(type), await contextState.object.readTensor(mlTensor));
      // It is an array from now on, into which the program may write.
      forgetUnread(tensor);
      return array;
    },
    dispose: () => {
      if (mlTensor === undefined) tensor[member] = undefined;
      else destroy(mlTensor);
    },
  };
  const tensor = location === 'ml-tensor' ? Tensor.fromMLTensor({}, options) : Tensor.fromGpuBuffer({}, options);
  lookLater(tensor, member, unread, make);
  return tensor;
}

module.exports = { canKeep, locatedTensorOfUnread, refill, tensorOfUnread };
