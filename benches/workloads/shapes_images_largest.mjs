// The largest image of shapes_images alone: its peak memory is what that of the others is compared with.
import { images } from '../images.mjs';

export const metrics = { sequence: '20 runs at the largest of the 20 sizes and no other' };
export const once = ['sequence'];
export const engines = images((sizes) => [sizes.at(-1)], 20);
