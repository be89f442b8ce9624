import './transformers.js';
