// Images of twenty sizes for a convolutional network, four of each.
import { images } from '../images.mjs';

export const metrics = { sequence: 'four runs at each of 20 sizes from 96 x 128 to 400 x 300, all plans made on the way' };
export const once = ['sequence'];
export const engines = images((sizes) => sizes, 4);
