/** Makes constraints for `generate` and `generateText` of `webnn-node/generate`, which call it for `constraint: { schema }` and the like. */

import type { Constraint, TokenConstraint } from 'webnn-node/generate';

export type { TokenConstraint, TokenMatcher } from 'webnn-node/generate';
/** What a text must be, and the model's tokenizer. */
export type TextConstraint = Exclude<Constraint, TokenConstraint>;

/**
 * Compiles a constraint once, for any number of calls at once. It rejects with a `TypeError` where the schema, the regular expression or the
 * grammar is wrong, not supported, or allows no text; the message has the place.
 */
export function compile(constraint: TextConstraint): Promise<TokenConstraint>;
