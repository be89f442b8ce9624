// An encoder of the sizes of BERT-base.
import { texts } from '../texts.mjs';

export const { metrics, engines } = texts({ layers: 12, width: 768, heads: 12 }, 200, 6);
export const once = ['sequence'];
