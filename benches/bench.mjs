// npm run bench -- NAME [options]: starts one of the measurements. Without a name it starts `workloads`.
import { workloads } from './options.mjs';

/** Without `usage` the program answers `--help` itself. */
const PROGRAMS = {
  workloads: { file: './run.mjs', about: 'small workloads, compared with onnxruntime-node; the name of a workload works as well' },
  models: { file: './run.mjs', about: 'the .onnx files of a folder, compared with onnxruntime-node: models DIR [options]', first: '--models' },
  text: {
    file: './decode/run.mjs',
    about: 'decoders, compared with onnxruntime-node and llama.cpp',
    usage: `text MODEL.onnx … [options]

  MODEL.onnx       decoders of benches/models/make_decoder.py, or others with growing caches of float32, input_ids and attention_mask
  --threads N      threads of each engine (default 1)
  --past N,N       tokens before the measured ones (default 8,512,2048)
  --prompt N,N     lengths of prompts (default 128,512)
  --rounds N       rounds, each with one process for each engine (default 3)
  --tokens N       tokens to generate (default 32)
  --llama DIR      a folder with npm's node-llama-cpp: measures llama.cpp too, on MODEL.gguf beside the model`,
  },
  batch_decode: {
    file: './decode/batch.mjs',
    about: 'several sequences of a decoder at once, compared with llama.cpp and a batch of onnxruntime-node',
    usage: `batch_decode MODEL.onnx … [options]

  MODEL.onnx       decoders of benches/models/make_decoder.py
  --quick          one short round after 32 tokens, without a prompt: less than 3 minutes
  --threads N      threads of each engine (default 1)
  --sequences N,N  numbers of sequences (default 1,2,4,8)
  --past N,N       tokens before the measured ones (default 32,512)
  --prompt N       length of a prompt that joins a running sequence; 0 for none (default 2000)
  --rounds N       rounds, each with one process for each engine (default 3)
  --tokens N       tokens to generate (default 32), times the number of sequences plus one
  --llama DIR      a folder with npm's node-llama-cpp: measures llama.cpp too, on MODEL.gguf beside the model`,
  },
  speculate: {
    file: './decode/speculate.mjs',
    about: 'gain and cost of guessing the next tokens',
    usage: `speculate MODEL.onnx … [options]

  MODEL.onnx       decoders of benches/models/make_decoder.py, or others
  --quick          one short round: only to check that it runs
  --threads N      threads (default 1)
  --rates R,R      probabilities that the next token follows in the prompt; 0 repeats nothing (default 0,0.5,0.8,0.9,0.95,1)
  --past N         tokens before the measured ones (default 512)
  --tokens N       tokens to generate (default 256)
  --rounds N       rounds, each with another text (default 3)
  --draft FILE     a smaller model that guesses, for text of the model itself`,
  },
  transformers: {
    file: './transformers/run.mjs',
    about: 'transformers.js: texts, batches, and a server of embeddings',
    needs: '--model',
    usage: `transformers --model DIR [options]

  --model DIR      a model of transformers.js; examples/embeddings makes one
  --texts N        number of texts (default 1000)
  --seconds S      how long each number of clients is measured (default 10)
  --clients N,N    numbers of clients (default 1,8,32)
  --rounds N       rounds, each with one process for each engine (default 1)
  --threads N      threads of each engine (default: that of the engine)
  --json FILE      write everything that was measured`,
  },
  openvino: {
    file: './openvino/run.mjs',
    about: 'strict and bf16, compared with OpenVINO',
    needs: '--models',
    usage: `openvino --models DIR [options]

  --models DIR     the .onnx files of this folder
  --python PYTHON  a Python with PyPI's openvino (default python3)
  --threads N      threads of each engine; may be given again (default 1 and 2)
  --rounds N       rounds, each with one process for each engine (default 3)
  --only NAME      only this model; may be given again
  --ms N           length of a sample in milliseconds (default 1000)
  --json FILE      write everything that was measured`,
  },
  gpu: {
    file: './devices/gpu.mjs',
    about: 'products and models on a GPU',
    usage: `gpu [options]

  --sizes N,N      products of N x N matrices (default 2048,4096)
  --types T,T      their data types (default float32,float16)
  --peak T=N       peak of the card with a data type in TFLOP/s, to compare with; may be given again
  --models DIR     also the .onnx files of this folder
  --only NAME      only models with this in their name
  --dimension N=S  size of an open dimension; may be given again
  --seconds S      time for each measurement (default 2)

WEBNN_ADAPTER selects a GPU by a part of its name. Without a hardware GPU a software GPU is used; its times mean nothing.

gpu --peers [options]: compared with onnxruntime-node's webgpu provider and onnxruntime-web, with a roofline

  --prepare          only write the models (4 GB), so that a run measures at once
  --minutes N        time of the whole run (default 4, with --allow-software 20); the most important parts come first
  --only TEXT        only the groups (networks, products, text, convolutions) or parts with this in their name; may be given again
  --engine NAME      only webnn-wgpu, webnn-dawn, onnxruntime-node or onnxruntime-web; may be given again
  --out DIR          gets gpu.json and gpu.md (default target/bench-gpu/results)
  --models DIR       where the models are (default target/bench-gpu/models)
  --allow-software   accepts a device in software, to try everything in small sizes; the figures mean nothing`,
    also: { '--peers': './gpu/peers.mjs' },
  },
  webgpu: {
    file: './devices/webgpu.mjs',
    about: 'how long work on a GPUDevice blocks the JavaScript thread',
    usage: `webgpu [options]

  --only NAMES     bert, operators, or both with a comma between
  --calls          also the longest calls of WebGPU

VK_DRIVER_FILES names the driver; the default is SwiftShader in target/swiftshader.`,
  },
  shaders: {
    file: './devices/builds.mjs',
    about: 'how long software drivers compile the shaders of single operators',
    usage: `shaders [options]

  --rounds N       processes for each driver (default 3)
  --only NAMES     only these operators, such as gru,matmul`,
  },
  real: {
    file: './real.mjs',
    about: 'any .onnx files, with random inputs: time and processor time of a run',
    usage: `real FILE-OR-FOLDER … [options]

  --threads N                threads of each engine (default 2)
  --rounds N                 rounds, each with one process for each engine (default 3)
  --ms N                     length of a sample in milliseconds (default 1000)
  --every MS                 a run every so many milliseconds instead of one after the other
  --engine NAME              session, model, or both given (default)
  --dimension [MODEL/]N=S    size of an open dimension, by its name or as INPUT:AXIS; may be given again
  --value [MODEL/]INPUT=N    fills an input with a number; may be given again
  --json FILE                write everything that was measured`,
  },
  memory: {
    file: './memory.mjs',
    about: 'memory of several sessions of a model, in one process and in several; memory and time of a second load',
    usage: `memory FILE … [options]

  --sessions N       sessions in one process (default 8)
  --processes N      processes with one session each (default 8)
  --rounds N         rounds, each with its processes for each engine (default 3)
  --threads N        threads of each engine (default 2)
  --dimension N=S    size of an open dimension, by its name or as INPUT:AXIS; may be given again
  --value INPUT=N    fills an input with a number; may be given again
  --cache            webnn-node keeps packed weights in an empty folder, which its processes share`,
  },
  cycles: {
    file: './cycles.mjs',
    about: 'whether memory is released after many loads of a model, in a process and in workers, and after many writes',
    usage: `cycles FILE … [options]

  --cycles N         loads, runs and releases (default 100)
  --threads N        threads (default 2)
  --dimension N=S    size of an open dimension, by its name or as INPUT:AXIS; may be given again
  --value INPUT=N    fills an input with a number; may be given again`,
  },
  starts: {
    file: './starts.mjs',
    about: 'the first run of a model in a new process: without a cache, with an empty cache, and with a filled one',
    usage: `starts FILE … [options]

  --rounds N         rounds, each with its processes (default 3)
  --threads N        threads (default 2)
  --dimension N=S    size of an open dimension, by its name or as INPUT:AXIS; may be given again
  --value INPUT=N    fills an input with a number; may be given again

The cold start needs root, or programs of GNU.`,
  },
  batching: {
    file: './batching.mjs',
    about: 'small models and texts of mixed lengths with and without batching, for 1 to 32 clients: throughput and the 99th percentile',
    usage: `batching [FILE …] [options]

Without files, all models below.

  --clients N,N    numbers of clients (default 1,2,4,8,16,32)
  --only NAME      only this model: table, wide, embedding, sentences, minilm or bert; may be given again
  --dimension N=S  size of an open dimension of the files, by its name or as INPUT:AXIS; may be given again
  --mixed N=MOST   likewise, but each client draws its own, from 1; may be given again
  --value INPUT=N  fills an input of the files with a number; may be given again
  --threads N      threads of the context (default 2)
  --max-size N     rows of a batch (default 32)
  --rounds N       rounds, each with two processes for each side (default 3)
  --ms N           length of a sample in milliseconds (default 500)
  --json FILE      write everything that was measured`,
  },
  streams: {
    file: './streams.mjs',
    about: 'networks of 20 us to 100 ms for 1 to 64 clients, with each setting of `performance`, compared with onnxruntime-node',
    usage: `streams [options]

  --clients N,N    numbers of clients (default 1,4,16,64)
  --only NAME      only this network: 20us, 200us, 2ms, 20ms or 100ms; may be given again
  --sides S,S      default, latency, throughput, numbers of streams, onnxruntime (default: all but numbers)
  --threads N      threads of each engine (default 2)
  --rounds N       rounds, each with one process for each side (default 3)
  --ms N           length of a sample in milliseconds (default 1000)
  --quick          only to check that everything runs
  --json FILE      write everything that was measured`,
  },
  chat: {
    file: './chat.mjs',
    about: 'chat completions of the server for 1 to 8 streams, compared with llama.cpp or another server with OpenAI\'s interface',
    needs: '--model',
    usage: `chat --model FOLDER-OR-FILE [options]

  --model FOLDER      a decoder with a chat template, as on the hub; or a file of benches/models/make_decoder.py
  --llama DIR         a folder with npm's node-llama-cpp: measures llama.cpp too, on MODEL.gguf beside MODEL.onnx
  --beside URL        the address of another running server, such as http://127.0.0.1:8080/v1 of llama.cpp's
  --beside-model NAME the model of that server (default model)
  --beside-pid PID    the process of that server, to measure its memory
  --streams N,N       numbers of streams (default 1,4,8)
  --tokens N          tokens of an answer at most (default 128)
  --words N           words of a question (default 64)
  --rounds N          rounds, each with both sides (default 3)
  --threads N         threads of the server (default 2)
  --json FILE         write everything that was measured`,
  },
  serving: {
    file: './serving.mjs',
    about: 'inferences of the server over HTTP and gRPC for 1 to 64 clients, compared with fastify on onnxruntime-node, and MLServer',
    usage: `serving --model FILE.onnx [options]

  --model FILE        a model
  --shape NAME=1x128  the shape of an input; by default open dimensions are 1
  --clients N,N       numbers of clients (default 1,8,64)
  --seconds N         length of a measurement (default 5)
  --rounds N          rounds, each with all sides (default 3)
  --threads N         threads of each server (default 2)
  --mlserver COMMAND  also measure PyPI's mlserver, installed with onnxruntime, with and without its batching
  --beside URL        also measure another running server, which has the model as \`model\`
  --overhead          instead of a model: the time that the server adds to a run of a tiny model, compared with servers that do nothing
  --json FILE         write everything that was measured`,
  },
  constrain: {
    file: './constrain.mjs',
    about: 'time of the masks of constrained output for a large vocabulary',
    usage: `constrain [options]

  --tokens N       tokens of a made-up vocabulary (default 150000)
  --tokenizer FILE tokenizer.json of a model, with an end token among its special tokens
  --texts N        texts of each constraint (default 20)
  --model FILE     a decoder: tokens a second, with masks beside its steps and forced tokens fed together, and without
  --threads N      its threads (default 2)
  --rounds N       texts of each schema (default 5)
  --json FILE      write everything that was measured`,
  },
  observing: {
    file: './observing.mjs',
    about: 'cost of diagnostics channels and WEBNN_TRACE, on and off',
    usage: `observing [options]

  --rounds N       rounds, each with two processes for each side (default 10)
  --ms N           length of a sample in milliseconds (default 1000)
  --json FILE      write everything that was measured`,
  },
  charts: {
    file: './charts.mjs',
    about: 'draws the charts in docs/images/ from results/',
    usage: `charts [options]

  --check          only tell whether the files are up to date`,
  },
};

const help = () => `npm run bench -- [NAME] [options]

${Object.entries(PROGRAMS)
  .map(([name, { about }]) => `  ${name.padEnd(14)} ${about}`)
  .join('\n')}

Workloads: ${workloads.join(', ')}
npm run bench -- NAME --help lists the options of one. benches/README.md explains the figures.`;

/** The program, and the arguments that it gets. */
function choose(args) {
  const [name, ...rest] = args;
  if (name === undefined || name.startsWith('-')) return [PROGRAMS.workloads, args];
  if (workloads.includes(name)) return [PROGRAMS.workloads, ['--only', ...args]];
  if (!Object.hasOwn(PROGRAMS, name)) return [];
  const program = PROGRAMS[name];
  return [program, program.first !== undefined && rest[0] !== '--help' ? [program.first, ...rest] : rest];
}

const args = process.argv.slice(2);
const [program, rest] = choose(args);
if (program === undefined) {
  console.error(`there is no measurement ${args[0]}\n\n${help()}`);
  process.exitCode = 2;
} else if (args[0] === '--help' || args[0] === '-h') console.log(help());
else if (program.usage !== undefined && rest.includes('--help')) console.log(`npm run bench -- ${program.usage}`);
else if (program.needs !== undefined && !rest.some((arg) => arg === program.needs || arg.startsWith(`${program.needs}=`))) {
  console.error(`${program.needs} is missing\n\nnpm run bench -- ${program.usage}`);
  process.exitCode = 2;
} else {
  process.argv.splice(2, Infinity, ...rest);
  const [, other] = Object.entries(program.also ?? {}).find(([option]) => rest.includes(option)) ?? [];
  await import(other ?? program.file);
}
