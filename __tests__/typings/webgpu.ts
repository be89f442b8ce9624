// A program as a user of WebGPU would write it, with the types of WebGPU or without; nothing runs it.
import { ml, MLCommandBuffer, type MLGPUBuffer, type MLGPUCommandBuffer, type MLGPUDevice, type MLTensor } from 'webnn-node';
import { importExternalBuffer, requiredFeatures, requiredLimits, type AdapterLike } from 'webnn-node/webgpu';

export async function share(device: MLGPUDevice, commands: MLGPUCommandBuffer, recorded: MLCommandBuffer): Promise<void> {
  const context = await ml.createContext(device);
  const descriptor = { dataType: 'float16', shape: [1, 8] } as const;
  const tensor: MLTensor = await context.createExportableTensor(descriptor, device);
  const buffer: MLGPUBuffer = await context.exportToGPU(tensor);
  console.log(tensor.gpuDevice === device, buffer.size);
  buffer.destroy();
  context.submit([commands, recorded]);

  const other = await context.createTensor({ ...descriptor, importableToWebGPU: true });
  const imported = await importExternalBuffer(device, { source: other, label: 'other' });
  imported.release();
  // @ts-expect-error: a device is needed
  await context.createExportableTensor(descriptor);
}

export function ask(adapter: AdapterLike): object {
  return { requiredLimits: requiredLimits(adapter), requiredFeatures: requiredFeatures(adapter) };
}
