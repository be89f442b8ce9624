// npm run build
import { setUp } from './setup.mjs';

await setUp();
