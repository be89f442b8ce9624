/** Imported for what it does, before `@huggingface/transformers`: that computes with this engine. Pipelines then want `device: 'auto'`. */
export {};
