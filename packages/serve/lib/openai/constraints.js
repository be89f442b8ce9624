'use strict';

// What an answer must be: `response_format`, and calls of tools that must be made. @webnn-node/constrain compiles it, where it is installed.

const { invalid, unsupported } = require('./errors.js');

const isObject = (x) => typeof x === 'object' && x !== null && !Array.isArray(x);

/**
 * A schema, and the parameter that it comes from.
 * @typedef {{schema: object | boolean, param: string}} Format
 */

/**
 * What `response_format` asks for; nothing if any text will do.
 * @returns {Format | undefined}
 */
function readFormat({ response_format: format }) {
  const param = 'response_format';
  if (format === undefined || format === null || format.type === 'text') return undefined;
  if (!isObject(format)) throw invalid(param, 'response_format: allowed an object with a type.', 'invalid_type');
  if (format.type === 'json_object') return { schema: { type: 'object' }, param };
  if (format.type !== 'json_schema') throw unsupported(param, "response_format: type: allowed 'text', 'json_object' or 'json_schema'.");
  const schema = format.json_schema?.schema;
  if (!isObject(schema) && typeof schema !== 'boolean') throw invalid(param, 'response_format: json_schema: allowed { name, schema, strict } with a JSON schema.');
  return { schema, param };
}

/** A schema within another one: what it refers to is below a pointer. */
function below(schema, pointer) {
  if (Array.isArray(schema)) return schema.map((one) => below(one, pointer));
  if (!isObject(schema)) return schema;
  const moved = ([key, value]) => [key, key === '$ref' && typeof value === 'string' && value.startsWith('#') ? `${pointer}${value.slice(1)}` : below(value, pointer)];
  return Object.fromEntries(Object.entries(schema).map(moved));
}

/**
 * The schema of a call of one of some tools.
 * @param {Map<string, object>} schemas the parameters of tools, by name
 * @param {string} key what the arguments are called in a call
 */
function schemaOfCall(schemas, key) {
  const names = [...schemas.keys()];
  const parameters = names.map((name, i) => [`tool${i}`, below(schemas.get(name), `#/$defs/tool${i}`)]);
  const calls = names.map((name, i) => ({
    type: 'object',
    properties: { name: { const: name }, [key]: { $ref: `#/$defs/tool${i}` } },
    required: ['name', key],
    additionalProperties: false,
  }));
  return { anyOf: calls, $defs: Object.fromEntries(parameters) };
}

function requirePackage(param) {
  try {
    return require('@webnn-node/constrain');
  } catch (error) {
    // Its native part may be missing, too.
    const reason = error.code === 'MODULE_NOT_FOUND' ? '' : ` (${error.message})`;
    throw unsupported(param, `${param}: this server has no package @webnn-node/constrain, which constrains output${reason}.`);
  }
}

/**
 * The constraint of `generate`.
 * @param {import('./language-model.js').LanguageModel} model
 * @param {Format | undefined} format
 */
async function constraintOf(model, format) {
  if (format === undefined) return undefined;
  const { schema, param } = format;
  const { compile } = requirePackage(param);
  try {
    return await compile({ schema, tokenizer: model.vocabulary, end: model.ends });
  } catch (error) {
    if (error.name !== 'TypeError') throw error;
    throw invalid(param, `${param}: ${error.message.replace(/^constraint: /, '')}`, 'invalid_json_schema');
  }
}

module.exports = { constraintOf, readFormat, schemaOfCall };
