/** Import this before `@huggingface/transformers`, which then computes with this engine. Pipelines need `device: 'auto'`. */
export {};
