'use strict';

// A device that only takes notes, for what tests are to count.

/** Its `destroy()` is its class's, as that of others. */
class NotingBuffer {
  destroy() {}
}

/**
 * A GPUDevice without a GPU, and the shaders and bind groups that it was given.
 * @param {string[]} [features]
 * @param {(method: string) => void} [called] hears of its methods, of those of its queue, and of what else script may wait for
 */
function notingDevice(features = [], called = () => {}) {
  const shaders = [];
  const groups = [];
  const never = new Promise(() => {});
  const limits = {
    maxStorageBufferBindingSize: 1 << 27,
    maxBufferSize: 1 << 28,
    maxStorageBuffersPerShaderStage: 8,
    maxComputeWorkgroupsPerDimension: 65535,
    maxComputeWorkgroupStorageSize: 16384,
  };
  const makeBuffer = ({ label, size }) => {
    called('createBuffer');
    return Object.assign(new NotingBuffer(), { label, size });
  };
  const pass = {
    setPipeline() {},
    setBindGroup() {},
    dispatchWorkgroups: () => called('dispatchWorkgroups'),
    end() {},
  };
  const device = {
    features: new Set(features),
    limits,
    lost: never,
    queue: { submit: () => called('submit'), writeBuffer: () => called('writeBuffer'), onSubmittedWorkDone: () => Promise.resolve() },
    createBuffer: makeBuffer,
    createBindGroup({ entries }) {
      called('createBindGroup');
      groups.push(entries.map(({ resource }) => resource));
      return {};
    },
    createCommandEncoder: () => ({ beginComputePass: () => pass, copyBufferToBuffer() {}, finish: () => ({}) }),
    createShaderModule(descriptor) {
      called('createShaderModule');
      // Not the trial of subgroups.
      if (descriptor.label !== 'webnn subgroups') shaders.push(descriptor);
      return {};
    },
    createComputePipelineAsync: () => Promise.resolve({ getBindGroupLayout: () => ({}) }),
    pushErrorScope() {},
    popErrorScope: () => Promise.resolve(null),
  };
  return { device, groups, shaders };
}

module.exports = { notingDevice };
