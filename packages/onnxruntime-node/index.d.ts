export * from 'webnn-node/onnxruntime';
