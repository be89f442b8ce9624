import entries from './onnxruntime/entries.js';

entries.transformers();
