// The longest text of shapes_texts alone: its peak memory is what that of the others is compared with.
import { longest } from '../texts.mjs';

export const { metrics, engines } = longest({ layers: 6, width: 384, heads: 12 }, 40);
export const once = ['sequence'];
