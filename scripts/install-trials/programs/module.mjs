// The same by import: the files that export to ES modules are followed, too.
import { ml } from 'webnn-node';
import { generate } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';
import './trial.cjs';

if ([ml.createContext, generate, loadOnnx].some((exported) => typeof exported !== 'function')) throw new Error('something is not exported');
