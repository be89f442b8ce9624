/** Compiles constraints for `generate` and `generateText` of `webnn-node/generate`. They call it for `constraint: { schema }`, `{ regex }` and `{ grammar }`. */

import type { Constraint, TokenConstraint } from 'webnn-node/generate';

export type { TokenConstraint, TokenMatcher } from 'webnn-node/generate';
/** A schema, a regular expression or a grammar, and the model's tokenizer. */
export type TextConstraint = Exclude<Constraint, TokenConstraint>;

/**
 * Compiles a constraint once, for any number of concurrent calls. Rejects with a `TypeError` if the schema, the regular expression or the
 * grammar is invalid, is not supported, or allows no text; the message names the place.
 */
export function compile(constraint: TextConstraint): Promise<TokenConstraint>;
