// A sentence encoder of the sizes of MiniLM-L6.
import { texts } from '../texts.mjs';

export const { metrics, engines } = texts({ layers: 6, width: 384, heads: 12 }, 1000, 5);
export const once = ['sequence'];
