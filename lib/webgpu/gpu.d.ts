// The part of the WebGPU standard that this folder uses; for checking it, not for callers.

declare interface GPUSupportedLimits { readonly maxBufferSize: number; readonly [limit: string]: number }
declare interface GPUAdapter { readonly limits: GPUSupportedLimits; readonly features: ReadonlySet<string> }
declare interface GPUError { readonly message: string }
declare interface GPUBuffer {
  readonly size: number;
  label: string;
  mapAsync(mode: number): Promise<undefined>;
  getMappedRange(): ArrayBuffer;
  unmap(): void;
  destroy(): void;
}
declare interface GPUBindGroup { label: string }
declare interface GPUShaderModule { label: string }
declare interface GPUComputePipeline { getBindGroupLayout(index: number): object }
declare interface GPUCommandBuffer { label: string }
declare interface GPUComputePass {
  setPipeline(pipeline: GPUComputePipeline): void;
  setBindGroup(index: number, group: GPUBindGroup): void;
  dispatchWorkgroups(x: number, y: number, z: number): void;
  end(): void;
}
declare interface GPUQuerySet {
  destroy(): void;
}
declare interface GPUCommandEncoder {
  beginComputePass(descriptor: { label: string; timestampWrites?: object }): GPUComputePass;
  resolveQuerySet(set: GPUQuerySet, first: number, count: number, to: GPUBuffer, offset: number): void;
  copyBufferToBuffer(from: GPUBuffer, fromOffset: number, to: GPUBuffer, toOffset: number, size: number): void;
  finish(): GPUCommandBuffer;
}
declare interface GPUQueue {
  submit(buffers: GPUCommandBuffer[]): void;
  onSubmittedWorkDone(): Promise<undefined>;
  writeBuffer(buffer: GPUBuffer, offset: number, data: ArrayBufferView, dataOffset?: number, size?: number): void;
}
declare interface GPUDevice {
  readonly limits: GPUSupportedLimits;
  readonly features: ReadonlySet<string>;
  readonly adapterInfo?: { isFallbackAdapter?: boolean; vendor?: string; architecture?: string; device?: string; description?: string };
  readonly queue: GPUQueue;
  readonly lost: Promise<{ message: string; reason: string }>;
  createBuffer(descriptor: { label?: string; size: number; usage: number; mappedAtCreation?: boolean }): GPUBuffer;
  createShaderModule(descriptor: { label?: string; code: string }): GPUShaderModule;
  createComputePipelineAsync(descriptor: object): Promise<GPUComputePipeline>;
  createBindGroup(descriptor: object): GPUBindGroup;
  createQuerySet(descriptor: { type: string; count: number }): GPUQuerySet;
  createCommandEncoder(descriptor?: { label?: string }): GPUCommandEncoder;
  pushErrorScope(filter: string): void;
  popErrorScope(): Promise<GPUError | null>;
}
